"""The sinks that have to keep the contract of `test_sink_contract.py`.

A new sink is one class here, and its name in `SINKS`: how its vertex is written, what its readers
see, and after which steps of a batch a kill is to be tried.
"""

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import deltalake
import psycopg
import pyarrow.parquet
import pytest

from jobmanager.core.ids import AttemptNumber, VertexId
from taskrunner.core.continuation import OutputLost
from taskrunner.core.transactional_output import RewindRefused
from taskrunner.sinks.cassandra_output import CassandraAccess, CassandraStore
from taskrunner.sinks.database_table import DatabaseTable
from taskrunner.sinks.directory import SinkDirectory
from taskrunner.sinks.iceberg_table import open_catalog
from taskrunner.sinks.redis_output import RedisAccess, RedisOutput
from taskrunner.sinks.search_clients import SearchAccess
from taskrunner.sinks.search_output import SearchStore
from taskrunner.sinks.staged_transactions import StagedTransactions
from taskrunner.sinks.table_output import TableOutput
from taskrunner.sinks.versioned_output import VersionedOutput
from tests.integration.spark.jobs import JobUnderTest, Row, files_sink
from tests.support.cassandra_server import KEYSPACE, CassandraUnderTest, a_cassandra
from tests.support.connector_jars import VARIABLE, installed_jars
from tests.support.databases import fresh_database
from tests.support.hdfs import Hdfs
from tests.support.kafka import Broker, a_broker
from tests.support.postgres_tcp import JdbcPostgres, over_tcp
from tests.support.redis_server import RedisUnderTest, a_redis
from tests.support.s3a import Bucket
from tests.support.search_server import SearchUnderTest, a_search_server


class ContractSink:
    """A sink for rows of (id, k, v, ts), fresh for each test."""

    is_long: ClassVar[bool] = False
    """Whether all tests of this sink are for `make chaos`."""
    goes_back: ClassVar[bool] = True
    """False: a restore to an older batch is refused."""
    refusal: ClassVar[type[Exception]] = OutputLost
    """The error of such a refusal."""
    steps: ClassVar[tuple[str, ...]] = ()
    """Steps of writing a batch after which the runner is killed."""
    last_unseen: ClassVar[str] = "staged"
    """The last step of a batch after which readers see none of its rows."""

    @classmethod
    @contextmanager
    def opened(cls, request: pytest.FixtureRequest, root: Path) -> Iterator["ContractSink"]:
        """A sink with everything that it needs, such as a server."""
        yield cls()

    def vertex(self, after: str) -> Row:
        """The vertex `out` of the job graph."""
        raise NotImplementedError

    def rows(self, job: JobUnderTest) -> list[Row]:
        """What readers see."""
        raise NotImplementedError

    def taken_over(self, job: JobUnderTest, attempt: AttemptNumber) -> None:
        """Does what an attempt does at the sink when it starts, if that keeps others out."""

    @staticmethod
    def when(step: str, action: Callable[[], None]) -> Callable[[], None]:
        """Has `action` called after a step, in this process, for sinks that are opened from now on.
        Returns how to end that.
        """
        raise NotImplementedError


class Files(ContractSink):
    steps = ("staged", "decided", "renamed")

    def vertex(self, after: str) -> Row:
        return files_sink(after)

    def rows(self, job: JobUnderTest) -> list[Row]:
        return job.output()

    @staticmethod
    def when(step: str, action: Callable[[], None]) -> Callable[[], None]:
        return _call_after_step(SinkDirectory, step, action)


class RemoteFiles(Files):
    """Files on a remote file system, which are read by another client than Spark's."""

    fixture: ClassVar[str]

    def __init__(self, store: Hdfs | Bucket) -> None:
        self.store = store
        self.directory = f"/{uuid4().hex}/all orders"
        self.options = store.options if isinstance(store, Bucket) else {}

    @classmethod
    @contextmanager
    def opened(cls, request: pytest.FixtureRequest, root: Path) -> Iterator["ContractSink"]:
        yield cls(request.getfixturevalue(cls.fixture))

    def vertex(self, after: str) -> Row:
        path = f"{self.store.uri}{self.directory}"
        return files_sink(after, path=path, options=dict(self.options))

    def rows(self, job: JobUnderTest) -> list[Row]:
        found: list[Row] = []
        for name in self.store.files(self.directory):
            content = BytesIO(self.store.get(f"{self.directory}/{name}"))
            found += pyarrow.parquet.read_table(content).to_pylist()
        return found


class HdfsFiles(RemoteFiles):
    fixture = "hdfs"


class S3Files(RemoteFiles):
    is_long = True
    fixture = "bucket"


class Jdbc(ContractSink):
    """Rows that are appended, each with its batch."""

    steps = ("staging created", "staged", "noted", "moved", "committed", "dropped")
    fields: ClassVar[Row] = {"batch_column": "batch"}
    key: ClassVar[str] = ""

    def __init__(self, postgres: JdbcPostgres) -> None:
        self.postgres = postgres

    @classmethod
    @contextmanager
    def opened(cls, request: pytest.FixtureRequest, root: Path) -> Iterator["ContractSink"]:
        if not installed_jars():
            pytest.skip(f"needs the driver of Postgres: make jars, and {VARIABLE}")
        with (
            fresh_database(request.getfixturevalue("postgres_url")) as url,
            over_tcp(url) as postgres,
        ):
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(
                    "CREATE TABLE orders (id BIGINT, k TEXT, v BIGINT, ts TIMESTAMPTZ, batch TEXT"
                    f"{cls.key})".encode()
                )
            yield cls(postgres)

    def vertex(self, after: str) -> Row:
        return {
            "id": "out",
            "op": "sink",
            "inputs": [after],
            "connector": "jdbc",
            "url": self.postgres.jdbc_url,
            "user": self.postgres.user,
            "password": self.postgres.password,
            "table": "orders",
            **self.fields,
        }

    def rows(self, job: JobUnderTest) -> list[Row]:
        with psycopg.connect(self.postgres.url) as connection:
            found = connection.execute("SELECT id, k, v, ts FROM orders").fetchall()
        return [dict(zip(("id", "k", "v", "ts"), row, strict=True)) for row in found]

    @staticmethod
    def when(step: str, action: Callable[[], None]) -> Callable[[], None]:
        return _call_after_step(DatabaseTable, step, action)


class JdbcPlain(Jdbc):
    """Appended rows that nothing tells apart."""

    goes_back = False
    fields: ClassVar[Row] = {}


class JdbcUpsert(Jdbc):
    fields: ClassVar[Row] = {"mode": "upsert", "key": ["id"]}
    key: ClassVar[str] = ", PRIMARY KEY (id)"


class Delta(ContractSink):
    """A Delta table that is partitioned, with a name that has to be encoded in URIs."""

    steps = ("staged", "moved", "committed")

    def vertex(self, after: str) -> Row:
        return {
            "id": "out",
            "op": "sink",
            "inputs": [after],
            "connector": "delta",
            "path": "all orders",
            "partition_by": ["k"],
        }

    def rows(self, job: JobUnderTest) -> list[Row]:
        found: list[Row] = (
            deltalake.DeltaTable(job.root / "all orders").to_pyarrow_table().to_pylist()
        )
        return found

    @staticmethod
    def when(step: str, action: Callable[[], None]) -> Callable[[], None]:
        return _call_after_step(TableOutput, step, action)


class Iceberg(ContractSink):
    """An Iceberg table with its catalogue on Postgres."""

    steps = Delta.steps

    def __init__(self, url: str, root: Path) -> None:
        self.catalog = {"uri": url, "warehouse": f"file://{root}/warehouse"}

    @classmethod
    @contextmanager
    def opened(cls, request: pytest.FixtureRequest, root: Path) -> Iterator["ContractSink"]:
        with fresh_database(request.getfixturevalue("postgres_url")) as url:
            yield cls(url, root)

    def vertex(self, after: str) -> Row:
        return {
            "id": "out",
            "op": "sink",
            "inputs": [after],
            "connector": "iceberg",
            "table": "shop.orders",
            "catalog": self.catalog,
            "partition_by": ["k"],
        }

    def rows(self, job: JobUnderTest) -> list[Row]:
        with closing(open_catalog(self.catalog)) as catalog:
            table = catalog.load_table("shop.orders")
        found: list[Row] = table.scan().to_arrow().to_pylist()
        return found

    @staticmethod
    def when(step: str, action: Callable[[], None]) -> Callable[[], None]:
        return _call_after_step(TableOutput, step, action)


class Kafka(ContractSink):
    """Transactions on a broker of its own, for readers of committed records."""

    is_long = True
    goes_back = False
    refusal = RewindRefused
    steps = ("staged", "decided", "published", "noted")
    last_unseen = "staged"

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.topic = broker.create("orders")

    @classmethod
    @contextmanager
    def opened(cls, request: pytest.FixtureRequest, root: Path) -> Iterator["ContractSink"]:
        if not installed_jars():
            pytest.skip(f"needs the connector of Kafka: make jars, and {VARIABLE}")
        with a_broker() as broker:
            yield cls(broker)

    def vertex(self, after: str) -> Row:
        return {
            "id": "out",
            "op": "sink",
            "inputs": [after],
            "connector": "kafka",
            "servers": self.broker.servers,
            "topic": self.topic,
            "format": "json",
            "guarantee": "exactly_once",
            "visibility": "batch",
        }

    def rows(self, job: JobUnderTest) -> list[Row]:
        return [one.json for one in self.broker.records(self.topic)]

    @staticmethod
    def when(step: str, action: Callable[[], None]) -> Callable[[], None]:
        return _call_after_step(StagedTransactions, step, action)


class Redis(ContractSink):
    """Hashes under keys of a server of its own."""

    is_long = True
    steps = ("begun", "written", "ended")
    last_unseen = "begun"

    def __init__(self, server: RedisUnderTest) -> None:
        self.server = server

    @classmethod
    @contextmanager
    def opened(cls, request: pytest.FixtureRequest, root: Path) -> Iterator["ContractSink"]:
        with a_redis() as server:
            yield cls(server)

    def vertex(self, after: str) -> Row:
        return {
            "id": "out",
            "op": "sink",
            "inputs": [after],
            "connector": "redis",
            "url": self.server.url,
            "prefix": "orders:",
            "key": ["id"],
        }

    def rows(self, job: JobUnderTest) -> list[Row]:
        with self.server.client() as client:
            found = [client.hgetall(key) for key in client.scan_iter("orders:*")]
        return [{**row, "id": int(row["id"]), "v": int(row["v"])} for row in found]

    def taken_over(self, job: JobUnderTest, attempt: AttemptNumber) -> None:
        access = RedisAccess("127.0.0.1", self.server.port, 0)
        out = VertexId("out")
        RedisOutput(access, "orders:", job.id, out, attempt, nullcontext).take_over()

    @staticmethod
    def when(step: str, action: Callable[[], None]) -> Callable[[], None]:
        return _call_after_step(RedisOutput, step, action)


class OpenSearch(ContractSink):
    """Documents of an index of a server of its own."""

    is_long = True
    steps = ("begun", "written", "ended")
    last_unseen = "begun"
    product: ClassVar[str] = "opensearch"

    def __init__(self, server: SearchUnderTest) -> None:
        self.server = server

    @classmethod
    @contextmanager
    def opened(cls, request: pytest.FixtureRequest, root: Path) -> Iterator["ContractSink"]:
        with a_search_server(cls.product) as server:
            server.done("PUT", "/orders")
            yield cls(server)

    def vertex(self, after: str) -> Row:
        return {
            "id": "out",
            "op": "sink",
            "inputs": [after],
            "connector": self.product,
            "url": self.server.url,
            "index": "orders",
            "key": ["id"],
        }

    def rows(self, job: JobUnderTest) -> list[Row]:
        return list(self.server.documents("orders").values())

    def taken_over(self, job: JobUnderTest, attempt: AttemptNumber) -> None:
        store = SearchStore(SearchAccess(self.product, self.server.url), "orders")
        VersionedOutput(store, job.id, VertexId("out"), attempt, nullcontext).take_over()

    @staticmethod
    def when(step: str, action: Callable[[], None]) -> Callable[[], None]:
        return _call_after_step(VersionedOutput, step, action)


class Elasticsearch(OpenSearch):
    product = "elasticsearch"


class Cassandra(ContractSink):
    """Rows of a table of a node of its own."""

    is_long = True
    steps = ("begun", "written", "ended")
    last_unseen = "begun"

    def __init__(self, node: CassandraUnderTest) -> None:
        self.node = node

    @classmethod
    @contextmanager
    def opened(cls, request: pytest.FixtureRequest, root: Path) -> Iterator["ContractSink"]:
        with a_cassandra() as node:
            columns = "id bigint PRIMARY KEY, k text, v bigint, ts timestamp"
            node.done(f"CREATE TABLE {KEYSPACE}.orders ({columns})")
            yield cls(node)

    def vertex(self, after: str) -> Row:
        return {
            "id": "out",
            "op": "sink",
            "inputs": [after],
            "connector": "cassandra",
            "servers": self.node.server,
            "keyspace": KEYSPACE,
            "table": "orders",
            "key": ["id"],
        }

    def rows(self, job: JobUnderTest) -> list[Row]:
        return self.node.done(f"SELECT * FROM {KEYSPACE}.orders")

    def taken_over(self, job: JobUnderTest, attempt: AttemptNumber) -> None:
        access = CassandraAccess(("127.0.0.1",), self.node.port)
        store = CassandraStore(access, KEYSPACE, "orders", ("id",))
        VersionedOutput(store, job.id, VertexId("out"), attempt, nullcontext).take_over()

    @staticmethod
    def when(step: str, action: Callable[[], None]) -> Callable[[], None]:
        return _call_after_step(VersionedOutput, step, action)


SINKS: Mapping[str, type[ContractSink]] = {
    "files": Files,
    "hdfs": HdfsFiles,
    "s3a": S3Files,
    "jdbc": Jdbc,
    "jdbc_plain": JdbcPlain,
    "jdbc_upsert": JdbcUpsert,
    "delta": Delta,
    "iceberg": Iceberg,
    "kafka": Kafka,
    "redis": Redis,
    "opensearch": OpenSearch,
    "elasticsearch": Elasticsearch,
    "cassandra": Cassandra,
}


def kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _call_after_step(sink: type[Any], step: str, action: Callable[[], None]) -> Callable[[], None]:
    """Passes an `after_step` to every object of the class that is made from now on."""
    made = sink.__init__

    def make(self: Any, *arguments: Any, **named: Any) -> None:
        def after_step(name: str) -> None:
            if name == step:
                action()

        made(self, *arguments, **{**named, "after_step": after_step})

    setattr(sink, "__init__", make)  # noqa: B010 - mypy refuses the assignment
    return lambda: setattr(sink, "__init__", made)
