"""The jars of servers that tests start, from a Maven repository.

`python -m tests.support.maven_jars` fetches the sets of jars, without the large ones, into the
cache, which is `HEADGATE_TEST_JARS`, or else `.venv/server-jars`. The Makefile calls it during
set-up. No JVM is needed: each set is the list that Spark's resolver once found for its first jar.
"""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from jobmanager.core.connector_packages import catalogue, parse_coordinates
from jobmanager.files.connector_shelf import repository_of_spark
from jobmanager.files.jar_sources import JarRepository

REPOSITORY = Path(__file__).parents[2]
_KAFKA = """
    com.dynatrace.hash4j:hash4j:0.22.0
    com.fasterxml.jackson.core:jackson-annotations:2.19.0
    com.fasterxml.jackson.core:jackson-core:2.19.0
    com.fasterxml.jackson.core:jackson-databind:2.19.0
    com.fasterxml.jackson.dataformat:jackson-dataformat-csv:2.19.0
    com.fasterxml.jackson.dataformat:jackson-dataformat-yaml:2.19.0
    com.fasterxml.jackson.datatype:jackson-datatype-jdk8:2.19.0
    com.github.ben-manes.caffeine:caffeine:3.2.0
    com.github.luben:zstd-jni:1.5.6-10
    com.google.re2j:re2j:1.8
    com.typesafe.scala-logging:scala-logging_2.13:3.9.5
    com.yammer.metrics:metrics-core:2.2.0
    commons-beanutils:commons-beanutils:1.9.4
    commons-collections:commons-collections:3.2.2
    commons-digester:commons-digester:2.1
    commons-logging:commons-logging:1.3.2
    commons-validator:commons-validator:1.9.0
    net.sf.jopt-simple:jopt-simple:5.0.4
    net.sourceforge.argparse4j:argparse4j:0.7.0
    org.apache.kafka:kafka-clients:4.1.0
    org.apache.kafka:kafka-coordinator-common:4.1.0
    org.apache.kafka:kafka-group-coordinator:4.1.0
    org.apache.kafka:kafka-group-coordinator-api:4.1.0
    org.apache.kafka:kafka-metadata:4.1.0
    org.apache.kafka:kafka-raft:4.1.0
    org.apache.kafka:kafka-server:4.1.0
    org.apache.kafka:kafka-server-common:4.1.0
    org.apache.kafka:kafka-share-coordinator:4.1.0
    org.apache.kafka:kafka-storage:4.1.0
    org.apache.kafka:kafka-storage-api:4.1.0
    org.apache.kafka:kafka-tools-api:4.1.0
    org.apache.kafka:kafka-transaction-coordinator:4.1.0
    org.apache.kafka:kafka_2.13:4.1.0
    org.apache.logging.log4j:log4j-api:2.24.3
    org.apache.logging.log4j:log4j-core:2.24.3
    org.bitbucket.b_c:jose4j:0.9.6
    org.hdrhistogram:HdrHistogram:2.2.2
    org.jspecify:jspecify:1.0.0
    org.lz4:lz4-java:1.8.0
    org.pcollections:pcollections:4.0.2
    org.scala-lang:scala-reflect:2.13.16
    org.slf4j:slf4j-api:1.7.36
    org.xerial.snappy:snappy-java:1.1.10.7
    org.yaml:snakeyaml:2.4
"""
SETS: Mapping[str, Sequence[str]] = {
    "kafka-broker": _KAFKA.split(),
    "hdfs-minicluster": ["org.apache.hadoop:hadoop-client-minicluster:3.5.0"],
    "s3a": list(map(str, catalogue("4.3.0")["s3"].jars)),
}
"""The name of a set of jars, and the coordinates of all jars in it."""
_LARGE = ("s3a",)
"""Over 600 MB: fetched only if it is named, as `make chaos` does."""
_COMPLETE = ".complete"
_AT_ONCE = 8


def jars_of(name: str) -> list[Path]:
    """The jars of a set. They have to be in the cache."""
    directory = _cache() / name
    assert _is_complete(name), f"the jars of {name} are not in {directory}: run make jars"
    return sorted(directory.glob("*.jar"))


def fetch(names: Sequence[str]) -> None:
    """Fetches the sets that are not in the cache yet."""
    for name in names:
        if not _is_complete(name):
            _fetch(name)


def _is_complete(name: str) -> bool:
    marker = _cache() / name / _COMPLETE
    return marker.exists() and marker.read_text().split() == list(SETS[name])


def _fetch(name: str) -> None:
    directory = _cache() / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    source = JarRepository(os.environ.get("HEADGATE_MAVEN_REPOSITORY") or repository_of_spark())

    def take(coordinates: str) -> None:
        jar = parse_coordinates(coordinates)
        source.fetch(jar, directory / jar.file_name, lambda done, expected: None)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(take, SETS[name]))
    (directory / _COMPLETE).write_text("\n".join(SETS[name]))


def _cache() -> Path:
    return Path(os.environ.get("HEADGATE_TEST_JARS", REPOSITORY / ".venv" / "server-jars"))


if __name__ == "__main__":
    fetch(sys.argv[1:] or [name for name in SETS if name not in _LARGE])
