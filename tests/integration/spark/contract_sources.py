"""The sources that have to keep the contract of `test_source_contract.py`.

A new source is one class here, and its name in `SOURCES`: how its vertices are written, and how
rows come to where it reads. Sources that cannot read rows again, such as `socket`, promise nothing.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import pytest
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from tests.integration.spark.fed_files import ALL_ROWS, ROWS_A_FILE, files_source, put_file
from tests.integration.spark.jobs import Row
from tests.support.connector_jars import VARIABLE, installed_jars
from tests.support.hdfs import Hdfs
from tests.support.kafka import Broker, a_broker
from tests.support.s3a import Bucket

SCHEMA = "id BIGINT, k STRING, v BIGINT, ts TIMESTAMP"


def part(number: int) -> list[Row]:
    """The rows of one part of the input."""
    return ALL_ROWS[number * ROWS_A_FILE : (number + 1) * ROWS_A_FILE]


class ContractSource:
    """A source of rows of (id, k, v, ts) that takes in one part of the input in each batch."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    @contextmanager
    def opened(cls, request: pytest.FixtureRequest, root: Path) -> Iterator["ContractSource"]:
        """A source with everything that it needs, such as a server."""
        yield cls(root)

    def vertices(self) -> list[Row]:
        """Vertices of the job graph, of which the last is called `rows`."""
        raise NotImplementedError

    def feed(self, number: int) -> None:
        """Puts a part of the input where the source reads."""
        put_file(self.root / "in", number, part(number))


class Files(ContractSource):
    def vertices(self) -> list[Row]:
        return [files_source()]


class RemoteFiles(ContractSource):
    """Files on a remote file system, which another client than Spark's puts there."""

    fixture: ClassVar[str]

    def __init__(self, root: Path, store: Hdfs | Bucket) -> None:
        super().__init__(root)
        self.store = store
        self.directory = f"/{uuid4().hex}/new orders"
        self.options = store.options if isinstance(store, Bucket) else {}

    @classmethod
    @contextmanager
    def opened(cls, request: pytest.FixtureRequest, root: Path) -> Iterator[ContractSource]:
        yield cls(root, request.getfixturevalue(cls.fixture))

    def vertices(self) -> list[Row]:
        path = f"{self.store.uri}{self.directory}"
        return [files_source(path=path, options=dict(self.options))]

    def feed(self, number: int) -> None:
        lines = "".join(json.dumps(row) + "\n" for row in part(number))
        self.store.put(
            f"{self.directory}/{number:03d}.json",
            lines.encode(),
            modified_ms=(1_700_000_000 + number) * 1000,
        )


class HdfsFiles(RemoteFiles):
    fixture = "hdfs"


class S3Files(RemoteFiles):
    fixture = "bucket"


class OneFileABatch(SimpleDataSourceStreamReader):
    """Reads the files of a directory, one in each batch."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"files": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[Any, ...]], dict[str, int]]:
        at = start["files"]
        end = at + (self._directory / f"{at:03d}.json").exists()
        rows = iter(list(self.readBetweenOffsets(start, {"files": end})))  # Spark copies it
        return rows, {"files": end}

    def readBetweenOffsets(  # noqa: N802
        self, start: dict[str, int], end: dict[str, int]
    ) -> Iterator[tuple[Any, ...]]:
        for number in range(start["files"], end["files"]):
            for line in (self._directory / f"{number:03d}.json").read_text().splitlines():
                row = json.loads(line)
                yield row["id"], row["k"], row["v"]


class FilesByPython(DataSource):
    def schema(self) -> str:
        return "id BIGINT, k STRING, v BIGINT"

    def simpleStreamReader(self, schema: Any) -> OneFileABatch:  # noqa: N802
        return OneFileABatch(self.options["directory"])


class PythonClass(ContractSource):
    def vertices(self) -> list[Row]:
        return [
            {
                "id": "rows",
                "op": "source",
                "connector": "python",
                "class": f"{__name__}:{FilesByPython.__name__}",
                "options": {"directory": str(self.root / "in")},
            }
        ]


class Kafka(ContractSource):
    def __init__(self, root: Path, broker: Broker) -> None:
        super().__init__(root)
        self.broker = broker
        self.topic = broker.create("contract", 1)

    @classmethod
    @contextmanager
    def opened(cls, request: pytest.FixtureRequest, root: Path) -> Iterator[ContractSource]:
        if not installed_jars():
            pytest.skip(f"needs the jars of Kafka: make jars, and {VARIABLE}")
        with a_broker() as broker:
            yield cls(root, broker)

    def vertices(self) -> list[Row]:
        return [
            {
                "id": "rows",
                "op": "source",
                "connector": "kafka",
                "servers": self.broker.servers,
                "topic": self.topic,
                "format": "json",
                "schema": SCHEMA,
                "max_rows_per_batch": ROWS_A_FILE,
            }
        ]

    def feed(self, number: int) -> None:
        self.broker.send(self.topic, part(number))


class AnyFormat(Kafka):
    """The connector `spark`, with a data source that only a jar brings."""

    def vertices(self) -> list[Row]:
        options = {
            "kafka.bootstrap.servers": self.broker.servers,
            "subscribe": self.topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(ROWS_A_FILE),
        }
        read = {"id": "records", "op": "source", "connector": "spark", "format": "kafka"}
        row = f"from_json(CAST(value AS STRING), '{SCHEMA}')"
        columns = {name: f"{row}.{name}" for name in ("id", "k", "v")}
        return [
            {**read, "options": options, "jars": ["kafka"]},
            {"id": "rows", "op": "map", "inputs": ["records"], "select": columns},
        ]


SOURCES: dict[str, type[ContractSource]] = {
    "files": Files,
    "hdfs": HdfsFiles,
    "s3a": S3Files,
    "python": PythonClass,
    "kafka": Kafka,
    "spark": AnyFormat,
}
