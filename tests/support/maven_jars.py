"""The jars of servers that tests start, from a Maven repository.

`python -m tests.support.maven_jars` fetches the sets of jars, without those of long tests, into the
cache, which is `HEADGATE_TEST_JARS`, or else `.venv/server-jars`. The Makefile calls it during
set-up. No JVM is needed: each set is the list that Spark's resolver once found for a server.
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
_CASSANDRA = """
    at.yawk.lz4:lz4-java:1.10.1
    ch.obermuhlner:big-math:2.3.0
    ch.qos.logback:logback-classic:1.5.18
    ch.qos.logback:logback-core:1.5.18
    com.beust:jcommander:1.30
    com.boundary:high-scale-lib:1.0.6
    com.carrotsearch:hppc:0.8.1
    com.clearspring.analytics:stream:2.5.2
    com.fasterxml.jackson.core:jackson-annotations:2.19.2
    com.fasterxml.jackson.core:jackson-core:2.19.2
    com.fasterxml.jackson.core:jackson-databind:2.19.2
    com.fasterxml.jackson.datatype:jackson-datatype-jsr310:2.19.2
    com.github.ben-manes.caffeine:caffeine:3.1.8
    com.github.jbellis:jamm:0.4.0
    com.github.jnr:jffi:1.3.11
    com.github.jnr:jnr-a64asm:1.0.0
    com.github.jnr:jnr-constants:0.10.4
    com.github.jnr:jnr-ffi:2.2.13
    com.github.jnr:jnr-x86asm:1.0.2
    com.github.luben:zstd-jni:1.5.7-2
    com.github.seancfoley:ipaddress:5.3.3
    com.google.code.findbugs:jsr305:2.0.2
    com.google.guava:failureaccess:1.0.1
    com.google.guava:guava:32.0.1-jre
    com.google.j2objc:j2objc-annotations:1.3
    com.googlecode.concurrent-trees:concurrent-trees:2.4.0
    com.vdurmont:semver4j:3.1.0
    commons-cli:commons-cli:1.5.0
    io.airlift:airline:0.8
    io.dropwizard.metrics:metrics-core:4.2.28
    io.dropwizard.metrics:metrics-jvm:4.2.19
    io.dropwizard.metrics:metrics-logback:4.2.19
    io.github.jbellis:jvector:1.0.2
    io.netty:netty-buffer:4.1.130.Final
    io.netty:netty-codec:4.1.130.Final
    io.netty:netty-common:4.1.130.Final
    io.netty:netty-handler-proxy:4.1.130.Final
    io.netty:netty-handler-ssl-ocsp:4.1.130.Final
    io.netty:netty-handler:4.1.130.Final
    io.netty:netty-resolver:4.1.130.Final
    io.netty:netty-tcnative-boringssl-static:2.0.70.Final
    io.netty:netty-tcnative-classes:2.0.70.Final
    io.netty:netty-transport-classes-epoll:4.1.130.Final
    io.netty:netty-transport-native-epoll:4.1.130.Final
    io.netty:netty-transport-native-unix-common:4.1.130.Final
    io.netty:netty-transport:4.1.130.Final
    javax.inject:javax.inject:1
    net.java.dev.jna:jna-platform:5.13.0
    net.java.dev.jna:jna:5.13.0
    net.openhft:affinity:3.23.3
    net.openhft:chronicle-analytics:2.23.2
    net.openhft:chronicle-bytes:2.23.33
    net.openhft:chronicle-core:2.23.36
    net.openhft:chronicle-queue:5.23.37
    net.openhft:chronicle-threads:2.23.25
    net.openhft:chronicle-wire:2.23.39
    net.openhft:compiler:2.23ea0
    net.openhft:posix:2.24ea4
    org.agrona:agrona:1.17.1
    org.antlr:ST4:4.0.8
    org.antlr:antlr-runtime:3.5.2
    org.apache.cassandra:cassandra-all:5.0.8
    org.apache.commons:commons-lang3:3.18.0
    org.apache.commons:commons-math3:3.2
    org.apache.lucene:lucene-analysis-common:9.7.0
    org.apache.lucene:lucene-core:9.7.0
    org.caffinitas.ohc:ohc-core-j8:0.5.1
    org.caffinitas.ohc:ohc-core:0.5.1
    org.eclipse.jdt:ecj:3.33.0
    org.fusesource:sigar:1.6.4
    org.hdrhistogram:HdrHistogram:2.1.12
    org.jctools:jctools-core:3.1.0
    org.mindrot:jbcrypt:0.4
    org.ow2.asm:asm-analysis:9.4
    org.ow2.asm:asm-commons:9.4
    org.ow2.asm:asm-tree:9.4
    org.ow2.asm:asm-util:9.4
    org.ow2.asm:asm:9.4
    org.psjava:psjava:0.1.19
    org.slf4j:jcl-over-slf4j:2.0.17
    org.slf4j:log4j-over-slf4j:2.0.17
    org.slf4j:slf4j-api:2.0.17
    org.xerial.snappy:snappy-java:1.1.10.4
    org.yaml:snakeyaml:2.1
"""
SETS: Mapping[str, Sequence[str]] = {
    "kafka-broker": _KAFKA.split(),
    "cassandra": _CASSANDRA.split(),
    "hdfs-minicluster": ["org.apache.hadoop:hadoop-client-minicluster:3.5.0"],
    "s3a": list(map(str, catalogue("4.3.0")["s3"].jars)),
}
"""The name of a set of jars, and the coordinates of all jars in it."""
_OF_LONG_TESTS = ("cassandra", "s3a")
"""The sets that only `make chaos` fetches, by name."""
_COMPLETE = ".complete"
_AT_ONCE = 8


def jars_of(name: str) -> list[Path]:
    """The jars of a set. They have to be in the cache."""
    directory = _cache() / name
    assert _is_complete(name), f"the jars of {name} are not in {directory}: run make jars"
    return sorted(directory.glob("*.jar"))


def is_fetched(name: str) -> bool:
    """Whether the jars of a set are in the cache."""
    return _is_complete(name)


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
    fetch(sys.argv[1:] or [one for one in SETS if one not in _OF_LONG_TESTS])
