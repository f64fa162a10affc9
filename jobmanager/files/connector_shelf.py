"""The connector packages that are installed on this machine.

    <data dir>/connectors/<Spark's version>/<package>/<artifact>-<version>.jar
                                                     /package.json       coordinates and checksums
    <data dir>/connectors.toml                                            a site's own packages

A package is there as a whole or not at all: its jars are fetched into a directory beside, which
then gets its name. Jars are fetched by `headgate connectors install` only, never for a job.
"""

import json
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import uuid4
from zipfile import ZipFile

from jobmanager.core import connector_packages
from jobmanager.core.connector_packages import (
    ConnectorPackage,
    Coordinates,
    JarChoice,
    PythonRequirement,
    UnusableCatalogue,
)
from jobmanager.files import durable
from jobmanager.files.jar_sources import JarNotPublished, JarSource, OnBytes, sha256_of

SITE_FILE = "connectors.toml"
_RECORD = "package.json"
_RESOLVER = "org/apache/ivy/plugins/resolver/IBiblioResolver.class"
_REPOSITORY = re.compile(rb"https://[\w.-]+/maven2")
Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class InstalledJar:
    coordinates: str
    path: Path
    bytes: int
    sha256: str

    def damage(self) -> str | None:
        """What is wrong with the file; None: it is the file that was installed."""
        if not self.path.is_file():
            return f"{self.path} is missing"
        if self.path.stat().st_size != self.bytes or sha256_of(self.path) != self.sha256:
            return f"{self.path} was changed since it was installed (its checksum differs)"
        return None


@dataclass(frozen=True, slots=True)
class ConnectorShelf:
    directory: Path
    """With a directory for each version of Spark."""
    data_dir: Path
    """For the commands in messages."""
    spark_version: str
    packages: dict[str, ConnectorPackage]
    repository: str | None = None
    """That of the site's own file; None: the repository that Spark itself would ask."""

    def jars(self, name: str) -> Sequence[InstalledJar] | None:
        """The jars of an installed package; None: it is not installed for this Spark."""
        try:
            home = self._home(name)
            record = json.loads((home / _RECORD).read_text(encoding="utf-8"))
            return [
                InstalledJar(
                    str(one["coordinates"]),
                    home / str(one["file"]),
                    int(one["bytes"]),
                    str(one["sha256"]),
                )
                for one in record["jars"]
            ]
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def jars_of(self, names: Iterable[str]) -> list[InstalledJar]:
        """The jars of several packages, each file once. What is not installed has none."""
        found = [jar for name in sorted(set(names)) for jar in self.jars(name) or ()]
        return list({jar.path.name: jar for jar in found}.values())

    def installed(self) -> list[str]:
        """The packages that have jars here, also those of a catalogue that has changed since."""
        home = self.directory / self.spark_version
        names = [one.name for one in home.iterdir()] if home.is_dir() else []
        return sorted(name for name in names if self.jars(name) is not None)

    def fault(self, name: str) -> str | None:
        """Why a job that needs a package cannot run, and what to do; None: it can."""
        package = self.packages.get(name)
        if package is None and self.jars(name) is None:
            known = ", ".join(self.packages)
            return (
                f"there is no connector package {name!r}: known are {known}; install your own with "
                f"{self.install_command(name)} --coordinates GROUP:ARTIFACT:VERSION"
            )
        if package is None:
            return None
        if package.jars and self.jars(name) is None:
            return (
                f"the connector package {name!r} is not installed on this server for Spark "
                f"{self.spark_version}: run {self.install_command(name)}"
            )
        lacking = [one for one in package.python if python_state(one) is not None]
        if lacking:
            states = "; ".join(f"{one}: {python_state(one)}" for one in lacking)
            return (
                f"the connector package {name!r} needs Python packages that are not there "
                f"({states}): run {pip_command(lacking)} and restart the server"
            )
        return None

    def install_command(self, name: str) -> str:
        return f"headgate connectors install {name} --data-dir {self.data_dir}"

    def install(
        self,
        name: str,
        choices: Iterable[JarChoice],
        source: JarSource,
        report: Report,
        on_bytes: Callable[[Coordinates], OnBytes],
    ) -> Sequence[InstalledJar]:
        """Fetches the first choice that is published as a whole. Raises `JarNotPublished`,
        `JarNotFetched`.
        """
        tried: list[str] = []
        for choice in choices:
            if tried:
                report(f"{name}: {tried[-1]}; taking another version: {choice.why}")
            try:
                return self._fetched(name, choice, source, on_bytes)
            except JarNotPublished as error:
                tried.append(str(error))
        raise JarNotPublished("; ".join(tried) or f"package {name!r} has no jars")

    def remove(self, name: str) -> bool:
        """Deletes the jars of a package. False: there were none."""
        home = self._home(name)
        if not home.exists():
            return False
        shutil.rmtree(self._moved_away(home))
        return True

    def _fetched(
        self,
        name: str,
        choice: JarChoice,
        source: JarSource,
        on_bytes: Callable[[Coordinates], OnBytes],
    ) -> Sequence[InstalledJar]:
        home = self._home(name)
        draft = home.with_name(f".{name}.{uuid4().hex}")
        draft.mkdir(parents=True)
        try:
            jars = []
            for jar in choice.jars:
                file = draft / jar.file_name
                source.fetch(jar, file, on_bytes(jar))
                jars.append(_record(jar, file))
            document = {"package": name, "spark": self.spark_version, "jars": jars}
            (draft / _RECORD).write_text(json.dumps(document, indent=1), encoding="utf-8")
            durable.sync_all(draft.iterdir(), inside=draft)
            old = self._moved_away(home) if home.exists() else None
            draft.rename(home)
            durable.sync(home.parent)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        if old is not None:
            shutil.rmtree(old)
        return self.jars(name) or ()

    def _moved_away(self, home: Path) -> Path:
        """Under another name first, so that no reader sees half of a package."""
        aside = home.with_name(f".{home.name}.{uuid4().hex}")
        home.rename(aside)
        return aside

    def _home(self, name: str) -> Path:
        return self.directory / self.spark_version / connector_packages.parse_name(name)


def open_shelf(
    data_dir: Path, directory: Path | None = None, site_file: Path | None = None
) -> ConnectorShelf:
    """The shelf of a data directory; jars are in `directory`, if that is given. Raises
    `UnusableCatalogue`.
    """
    version = spark_version()
    packages = connector_packages.catalogue(version)
    site = _site(site_file or data_dir / SITE_FILE, is_named=site_file is not None)
    try:
        packages = connector_packages.with_overrides(packages, site.get("packages", {}))
    except (UnusableCatalogue, AttributeError) as error:
        raise UnusableCatalogue(f"{site_file or data_dir / SITE_FILE}: {error}") from error
    repository = str(site["repository"]) if site.get("repository") else None
    return ConnectorShelf(
        directory or data_dir / "connectors", data_dir, version, packages, repository
    )


def repository_of_spark() -> str:
    """The address of Maven Central, as the resolver in Spark's own jars has it. Raises
    `UnusableCatalogue`.
    """
    spark = find_spec("pyspark")  # not imported
    homes = (spark.submodule_search_locations or []) if spark is not None else []
    for jar in (jar for home in homes for jar in Path(home, "jars").glob("ivy-*.jar")):
        with ZipFile(jar) as archive:
            found = _REPOSITORY.search(archive.read(_RESOLVER))
        if found is not None:
            return found[0].decode()
    raise UnusableCatalogue("Spark names no Maven repository: name one with --repository")


def spark_version() -> str:
    """Of the PySpark that runners of this machine import."""
    return metadata.version("pyspark")


def python_state(wanted: PythonRequirement) -> str | None:
    """What is wrong with a Python package; None: it is installed."""
    try:
        found = metadata.version(wanted.distribution)
    except metadata.PackageNotFoundError:
        return "missing"
    return None if _numbers(found) >= _numbers(wanted.least) else f"{found} is too old"


def pip_command(wanted: Iterable[PythonRequirement]) -> str:
    return f"{sys.executable} -m pip install " + " ".join(f"'{one}'" for one in wanted)


def _record(jar: Coordinates, file: Path) -> dict[str, Any]:
    return {
        "coordinates": str(jar),
        "file": jar.file_name,
        "bytes": file.stat().st_size,
        "sha256": sha256_of(file),
    }


def _site(path: Path, *, is_named: bool) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if is_named:
            raise UnusableCatalogue(f"{path} does not exist") from None
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UnusableCatalogue(f"{path}: {error}") from error


def _numbers(version: str) -> list[int]:
    """The leading numbers of a version: enough to compare it with a least version."""
    found: list[int] = []
    for part in version.split("."):
        with suppress(ValueError):
            found.append(int(part))
            continue
        break
    return found


def environment_directory() -> Path | None:
    """The directory of jars that the environment names, as for a server."""
    named = os.environ.get("HEADGATE_CONNECTOR_JARS")
    return Path(named).expanduser().resolve() if named else None
