"""The jars of connectors in a Spark session.

They are given to Spark by `spark.jars`, and not by the class path of the JVM: an archive of classes
fits only the class path that it was written with. Spark sends them to executors.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

JARS = "spark.jars"


class ConnectorJarDamaged(Exception):
    """A jar of a connector package is missing or was changed since it was installed."""


def checked(jars: Iterable[tuple[str, str]]) -> list[str]:
    """The paths of these jars, after a look at each: path and sha256. Raises
    `ConnectorJarDamaged`.
    """
    return [_checked(Path(path), sha256) for path, sha256 in jars]


def from_argument(text: str) -> list[str]:
    """The same from the command line, as JSON. Raises `ConnectorJarDamaged`."""
    return checked((one["path"], one["sha256"]) for one in json.loads(text))


def with_jars(chosen: Mapping[str, str], jars: Sequence[str]) -> dict[str, str]:
    """The settings with these jars, beside those that the job itself names."""
    return {**chosen, JARS: ",".join(dict.fromkeys([*jars, *_listed(chosen)]))}


def keeping(opened: Mapping[str, str], chosen: Mapping[str, str]) -> Mapping[str, str]:
    """The chosen settings; with the jars of the opened session, if these include all chosen."""
    if JARS in opened and set(_listed(chosen)) <= set(_listed(opened)):
        return {**chosen, JARS: opened[JARS]}
    return chosen


def _listed(chosen: Mapping[str, str]) -> list[str]:
    return [one.strip() for one in chosen.get(JARS, "").split(",") if one.strip()]


def _checked(path: Path, sha256: str) -> str:
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ConnectorJarDamaged(
            f"the connector jar {path} cannot be read ({error.strerror}): install its package "
            "again with headgate connectors install"
        ) from error
    if found != sha256:
        raise ConnectorJarDamaged(
            f"the connector jar {path} was changed since it was installed (sha256 {found}, "
            f"recorded {sha256}): install its package again with headgate connectors install"
        )
    return str(path)
