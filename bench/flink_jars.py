"""Fetches what Flink from PyPI lacks for the benchmarks: its Kafka connector and Parquet format.

    python -m bench.flink_jars .venv/flink/jars

Hadoop's classes, which the Parquet format needs, are those that PySpark has.
"""

import os
import shutil
import sys
from pathlib import Path

import pyspark

from jobmanager.core.connector_packages import parse_coordinates
from jobmanager.files.connector_shelf import repository_of_spark
from jobmanager.files.jar_sources import JarNotFetched, JarNotPublished, JarRepository

JARS = (
    "org.apache.flink:flink-sql-connector-kafka:5.0.0-2.2",
    "org.apache.flink:flink-sql-parquet:2.3.0",
)
_OF_PYSPARK = ("hadoop-client-api-*.jar", "hadoop-client-runtime-*.jar")


def main(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    source = JarRepository(os.environ.get("HEADGATE_MAVEN_REPOSITORY") or repository_of_spark())
    for coordinates in JARS:
        jar = parse_coordinates(coordinates)
        try:
            source.fetch(jar, directory / jar.file_name, lambda done, expected: None)
        except (JarNotFetched, JarNotPublished) as error:
            (directory / jar.file_name).unlink(missing_ok=True)
            sys.stderr.write(f"{error}: Flink is measured without it\n")
    for pattern in _OF_PYSPARK:
        for found in (Path(pyspark.__file__).parent / "jars").glob(pattern):
            shutil.copy(found, directory)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
