"""The connector packages: what Spark and Python lack for a connector, by exact coordinates.

A package is a list of jars, of Python packages, or both. The jars of Spark's own connectors have
the version of Spark. A repository may not have that version; `fallbacks` are versions that were
seen to work with a Spark version, and an installation says when it takes them and why. A site can
replace any package, or add its own, in a file (`with_overrides`).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

_PART = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
_COORDINATES = re.compile(rf"({_PART}):({_PART}):({_PART})")
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,40}")
_SCALA = "2.13"
_HADOOP = {"4.3": ("3.5.0", "2.35.4")}
"""Spark's minor version to the version of the Hadoop client in it, and of the AWS SDK of that."""
_OTHER_HADOOP = ("3.4.2", "2.29.52")
_S3_STREAMS = "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1"
"""With which the client of S3 in Hadoop 3.5 reads, unless it is told otherwise."""


class UnusableCatalogue(ValueError):
    """A name, coordinates or an entry of the site's own file are not right; the message says
    which.
    """


@dataclass(frozen=True, slots=True)
class Coordinates:
    """One jar in a Maven repository."""

    group: str
    artifact: str
    version: str

    def __str__(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"

    @property
    def path(self) -> PurePosixPath:
        """Inside a repository."""
        inside = PurePosixPath(*self.group.split("."), self.artifact, self.version)
        return inside / self.file_name


@dataclass(frozen=True, slots=True)
class JarChoice:
    """Jars that belong together."""

    jars: tuple[Coordinates, ...]
    why: str = ""
    """Why these are taken if the first choice is not published."""


@dataclass(frozen=True, slots=True)
class PythonRequirement:
    distribution: str
    least: str
    """The least version that works."""

    def __str__(self) -> str:
        return f"{self.distribution}>={self.least}"


@dataclass(frozen=True, slots=True)
class ConnectorPackage:
    name: str
    purpose: str
    jars: tuple[Coordinates, ...] = ()
    fallbacks: tuple[JarChoice, ...] = ()
    """In the order in which they are tried, if a jar of `jars` is not published."""
    python: tuple[PythonRequirement, ...] = ()

    def choices(self) -> Iterator[JarChoice]:
        yield JarChoice(self.jars)
        yield from self.fallbacks


def parse_coordinates(text: str) -> Coordinates:
    """Read `group:artifact:version`. Raises `UnusableCatalogue`."""
    found = _COORDINATES.fullmatch(text.strip())
    if found is None or ".." in text:
        raise UnusableCatalogue(f"{text!r} is not of the form group:artifact:version")
    return Coordinates(*found.groups())


def parse_name(text: str) -> str:
    """Read the name of a package. Raises `UnusableCatalogue`."""
    if not _NAME.fullmatch(text):
        raise UnusableCatalogue(
            f"{text!r} is not the name of a connector package: use lower-case letters, digits, "
            "'-' and '_'"
        )
    return text


def catalogue(spark_version: str) -> dict[str, ConnectorPackage]:
    """The packages that Headgate knows, for a version of Spark."""
    found = [
        _kafka(spark_version),
        _avro(spark_version),
        _s3(spark_version),
        *_databases(),
        *_python_packages(),
    ]
    return {package.name: package for package in found}


def with_overrides(
    known: Mapping[str, ConnectorPackage], document: Mapping[str, Any]
) -> dict[str, ConnectorPackage]:
    """The packages with those of a site: a mapping of names to `jars`, `python` and `purpose`. What
    an entry names replaces what is known, without fallbacks. Raises `UnusableCatalogue`.
    """
    found = dict(known)
    for name, entry in document.items():
        if not isinstance(entry, Mapping) or entry.keys() - {"jars", "python", "purpose"}:
            raise UnusableCatalogue(
                f"package {name!r} has to be a table with jars, python or purpose, not {entry!r}"
            )
        package = found.get(name) or ConnectorPackage(parse_name(name), "of this site")
        jars = tuple(map(parse_coordinates, _texts(entry, name, "jars")))
        python = tuple(map(_requirement, _texts(entry, name, "python")))
        package = replace(package, jars=jars, fallbacks=()) if "jars" in entry else package
        package = replace(package, python=python) if "python" in entry else package
        found[name] = replace(package, purpose=str(entry.get("purpose", package.purpose)))
    return found


def _kafka(spark: str) -> ConnectorPackage:
    client = _jars(
        "org.apache.kafka:kafka-clients:3.9.2", "org.apache.commons:commons-pool2:2.13.1"
    )

    def spark_jars(sql: str, tokens: str) -> tuple[Coordinates, ...]:
        names = (f"spark-sql-kafka-0-10_{_SCALA}", f"spark-token-provider-kafka-0-10_{_SCALA}")
        ours = zip(names, (sql, tokens), strict=True)
        return tuple(Coordinates("org.apache.spark", name, version) for name, version in ours)

    seen = JarChoice(
        (*spark_jars("4.2.0", "4.1.0-preview1"), *client),
        "4.2.0 and 4.1.0-preview1 were seen to work with Spark 4.3.0",
    )
    return ConnectorPackage(
        "kafka",
        "source and sink for Apache Kafka",
        (*spark_jars(spark, spark), *client),
        (seen,) if spark == "4.3.0" else (),
    )


def _avro(spark: str) -> ConnectorPackage:
    def avro(version: str) -> Coordinates:
        return Coordinates("org.apache.spark", f"spark-avro_{_SCALA}", version)

    seen = JarChoice((avro("4.1.1"),), "4.1.1 was seen to work with Spark 4.3.0")
    return ConnectorPackage(
        "avro",
        "format avro of files and of Kafka records",
        (avro(spark),),
        (seen,) if spark == "4.3.0" else (),
    )


def _s3(spark: str) -> ConnectorPackage:
    hadoop, sdk = _HADOOP.get(".".join(spark.split(".")[:2]), _OTHER_HADOOP)
    jars = _jars(f"org.apache.hadoop:hadoop-aws:{hadoop}", f"software.amazon.awssdk:bundle:{sdk}")
    if (hadoop, sdk) != _OTHER_HADOOP:
        jars += _jars(_S3_STREAMS)
    return ConnectorPackage("s3", "files on s3a: (the AWS SDK alone has over 600 MB)", jars)


def _databases() -> Iterator[ConnectorPackage]:
    for name, database, driver in (
        ("jdbc", "PostgreSQL", "org.postgresql:postgresql:42.7.7"),
        ("jdbc-mysql", "MySQL", "com.mysql:mysql-connector-j:9.4.0"),
        ("jdbc-mariadb", "MariaDB", "org.mariadb.jdbc:mariadb-java-client:3.5.6"),
        ("jdbc-sqlserver", "SQL Server", "com.microsoft.sqlserver:mssql-jdbc:13.2.0.jre11"),
        ("jdbc-oracle", "Oracle", "com.oracle.database.jdbc:ojdbc11:23.9.0.25.07"),
        ("jdbc-h2", "H2", "com.h2database:h2:2.4.240"),
    ):
        yield ConnectorPackage(name, f"the JDBC driver for {database}", _jars(driver))


def _python_packages() -> Iterator[ConnectorPackage]:
    for name, purpose, distribution, least in (
        ("delta", "Delta Lake tables", "deltalake", "1.6"),
        ("iceberg", "Apache Iceberg tables", "pyiceberg", "0.12"),
        ("redis", "sink for Redis", "redis", "5"),
        ("elasticsearch", "sink for Elasticsearch", "elasticsearch", "8"),
        ("opensearch", "sink for OpenSearch", "opensearch-py", "2"),
        ("cassandra", "sink for Apache Cassandra", "cassandra-driver", "3.29"),
    ):
        yield ConnectorPackage(name, purpose, python=(PythonRequirement(distribution, least),))


def _jars(*texts: str) -> tuple[Coordinates, ...]:
    return tuple(map(parse_coordinates, texts))


def _texts(entry: Mapping[str, Any], name: str, field: str) -> list[str]:
    value = entry.get(field, [])
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise UnusableCatalogue(f"{field} of package {name!r} is not a list of texts: {value!r}")
    return value


def _requirement(text: str) -> PythonRequirement:
    distribution, _, least = text.partition(">=")
    if not re.fullmatch(_PART, distribution.strip()):
        raise UnusableCatalogue(f"{text!r} is not a Python package such as redis>=5")
    return PythonRequirement(distribution.strip(), least.strip() or "0")
