"""The jars of servers that tests start, resolved from Maven by Spark's own resolver.

`python -m tests.support.maven_jars kafka-broker` fetches a set of jars into the cache, which is
`HEADGATE_TEST_JARS`, or else `.venv/server-jars`. The Makefile calls it during set-up.
"""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.java_gateway import launch_gateway

REPOSITORY = Path(__file__).parents[2]
SETS: Mapping[str, str] = {"kafka-broker": "org.apache.kafka:kafka_2.13:4.1.0"}
"""The name of a set of jars, and the coordinates that it is resolved from, with what they need."""
_COMPLETE = ".complete"


def jars_of(name: str) -> list[Path]:
    """The jars of a set. They have to be in the cache."""
    directory = _cache() / name
    assert (directory / _COMPLETE).exists(), (
        f"the jars of {name} are not in {directory}: run make jars"
    )
    return sorted(directory.glob("*.jar"))


def fetch(names: Sequence[str]) -> None:
    """Fetches the sets that are not in the cache yet."""
    missing = [name for name in names if not _is_complete(name)]
    if not missing:
        return
    launch: Any = launch_gateway
    gateway = launch()
    try:
        for name in missing:
            _fetch(gateway.jvm, name)
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
        shutil.rmtree(_cache() / "ivy", ignore_errors=True)


def _is_complete(name: str) -> bool:
    marker = _cache() / name / _COMPLETE
    return marker.exists() and marker.read_text() == SETS[name]


def _fetch(jvm: Any, name: str) -> None:
    directory = _cache() / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for path in _resolve(jvm, SETS[name], _cache() / "ivy"):
        shutil.copy(path, directory)
    (directory / _COMPLETE).write_text(SETS[name])


def _resolve(jvm: Any, coordinates: str, ivy: Path) -> list[str]:
    """The jars of `coordinates` and of everything that they depend on."""
    options, maven = jvm.scala.Option, jvm.org.apache.spark.util.MavenUtils
    out = jvm.java.lang.System.err
    settings = maven.buildIvySettings(options.empty(), options.apply(str(ivy)), False, out)
    nothing = jvm.scala.collection.immutable.Vector.newBuilder().result()
    found = maven.resolveMavenCoordinates(
        coordinates, settings, options.apply(settings), True, nothing, False, out
    )
    return [found.apply(number) for number in range(found.size())]


def _cache() -> Path:
    return Path(os.environ.get("HEADGATE_TEST_JARS", REPOSITORY / ".venv" / "server-jars"))


if __name__ == "__main__":
    fetch(sys.argv[1:] or list(SETS))
