"""The connector `jdbc` on real databases: Postgres, and others that run inside of the JVM."""

import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from pyspark.sql import SparkSession

from taskrunner.core.table_statements import dialect_of
from taskrunner.reports import failure_of
from taskrunner.sinks.database_table import TableUnfit
from taskrunner.sinks.sql_connection import DatabaseRefused
from taskrunner.spark.connectors.jdbc_connection import JdbcDatabase, JdbcOptions
from tests.integration.spark.fed_files import ALL_ROWS, ROWS_A_FILE, feed, files_source
from tests.integration.spark.fed_files import wait_until_read as wait_until_read_files
from tests.integration.spark.jobs import JobUnderTest, Row
from tests.support.connector_jars import VARIABLE, installed_jars
from tests.support.databases import fresh_database
from tests.support.postgres_tcp import JdbcPostgres, over_tcp

pytestmark = pytest.mark.skipif(not installed_jars(), reason=f"needs make jars, and {VARIABLE}")


@pytest.fixture
def postgres(postgres_url: str) -> Iterator[JdbcPostgres]:
    with fresh_database(postgres_url) as url, over_tcp(url) as found:
        yield found


def run(postgres: JdbcPostgres, *statements: str) -> list[tuple[Any, ...]]:
    """The rows of the last statement, if it has rows."""
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        *before, last = statements
        for statement in before:
            connection.execute(statement.encode())
        done = connection.execute(last.encode())
        return done.fetchall() if done.description else []


def at(postgres: JdbcPostgres) -> Row:
    return {
        "connector": "jdbc",
        "url": postgres.jdbc_url,
        "user": postgres.user,
        "password": postgres.password,
    }


def source(name: str, **fields: Any) -> Row:
    return {"id": name, "op": "source", **fields}


def sink(after: str, **fields: Any) -> Row:
    return {"id": "out", "op": "sink", "inputs": [after], **fields}


def test_a_batch_job_reads_a_table_in_parts_and_writes_every_type_by_key(
    job: JobUnderTest, postgres: JdbcPostgres
) -> None:
    # Given a table of many types, and a target with one of its rows, an older one
    columns = (
        "id BIGINT PRIMARY KEY, token UUID, price NUMERIC(10,2), happened TIMESTAMPTZ, day DATE, "
        "is_paid BOOLEAN, note TEXT, details JSONB, raw BYTEA, ratio DOUBLE PRECISION"
    )
    run(
        postgres,
        f"CREATE TABLE orders ({columns})",
        f"CREATE TABLE paid ({columns})",
        "INSERT INTO orders SELECT n, gen_random_uuid(), n / 4.0, "
        "'2026-01-01 12:00:00+02'::timestamptz + n * interval '1 hour', date '2026-01-01' + n::int,"
        " n % 3 = 0, CASE WHEN n % 5 > 0 THEN 'note ' || n END, "
        "json_build_object('n', n), decode('00ff', 'hex'), n / 7.0 "
        "FROM generate_series(0, 99) n",
        "INSERT INTO paid (id, note) VALUES (3, 'older')",
    )
    # When a job copies a part of it
    job.define(
        source(
            "orders",
            **at(postgres),
            table="orders",
            where="is_paid",
            partition_column="id",
            lower=0,
            upper=100,
            partitions=3,
            fetch_size=10,
        ),
        sink("orders", **at(postgres), table="paid", key=["id"]),
        mode="batch",
    ).run()
    # Then the target has just these rows, with all their values, and nothing else is left behind
    differing = "SELECT * FROM (SELECT * FROM orders WHERE is_paid {} SELECT * FROM paid) d"
    assert run(postgres, "SELECT count(*) FROM paid") == [(34,)]
    assert run(postgres, differing.format("EXCEPT")) == []
    tables = run(postgres, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    assert sorted(tables) == [("headgate_batches",), ("orders",), ("paid",)]
    assert run(postgres, "SELECT last_batch FROM headgate_batches") == [(0,)]


def poll_for(job: JobUnderTest, seconds: float) -> None:
    """What a runner does all the time, and what makes refreshes happen."""
    deadline = time.monotonic() + seconds

    def is_over() -> bool:
        assert job.running is not None
        job.running.regions[0].poll()
        return time.monotonic() > deadline

    job.wait(is_over)


@pytest.mark.long
def test_a_static_side_is_read_again_when_it_is_older_than_its_refresh(
    job: JobUnderTest, postgres: JdbcPostgres
) -> None:
    run(postgres, "CREATE TABLE names (k TEXT PRIMARY KEY, name TEXT)")
    run(postgres, "INSERT INTO names SELECT 'k' || n, 'old' FROM generate_series(0, 6) n")
    out = {"connector": "files", "format": "parquet", "path": "out"}

    def reads() -> int:
        [(found,)] = run(
            postgres,
            "SELECT pg_stat_force_next_flush()",
            "SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'names'",
        )
        return int(found)

    def names(files: int) -> set[str]:
        wait_until_read_files(job, files)
        first = (files - 1) * ROWS_A_FILE
        return {row["name"] for row in job.output() if row["id"] >= first}

    # Given a stream that is joined with a table, which is kept for a long time
    names_source = source(
        "names", **at(postgres), table="names", schema="k STRING, name STRING", refresh="1h"
    )
    join = {"id": "named", "op": "join", "inputs": ["rows", "names"], "on": ["k"]}
    feed(job, 0, 0)
    job.define(files_source(), names_source, join, sink("named", **out)).start()
    assert names(1) == {"old"}
    # When the table changes, batches still see what was read, and read nothing
    run(postgres, "UPDATE names SET name = 'new'")  # which scans the table as well
    before = reads()
    feed(job, 1, 1)
    assert names(2) == {"old"}
    assert reads() == before
    job.stop_at_boundary()
    # With a short refresh a later batch sees the change
    job.define(files_source(), {**names_source, "refresh": "1s"}, join, sink("named", **out))
    job.start()
    feed(job, 2, 2)
    assert names(3) == {"new"}
    run(postgres, "UPDATE names SET name = 'newer'")
    seen, files = {"new"}, 3
    while seen == {"new"} and files < 8:
        poll_for(job, 1.2)
        feed(job, files, files)
        files += 1
        seen = names(files)
    assert seen == {"newer"}


@pytest.mark.long
def test_without_refresh_every_batch_reads_the_static_side(
    job: JobUnderTest, postgres: JdbcPostgres
) -> None:
    run(postgres, "CREATE TABLE names (k TEXT PRIMARY KEY, name TEXT)")
    run(postgres, "INSERT INTO names SELECT 'k' || n, 'old' FROM generate_series(0, 6) n")
    join = {"id": "named", "op": "join", "inputs": ["rows", "names"], "on": ["k"]}
    feed(job, 0, 0)
    job.define(
        files_source(),
        source("names", **at(postgres), query="SELECT k, upper(name) AS name FROM names"),
        join,
        sink("named", connector="files", format="parquet", path="out"),
    ).start()
    wait_until_read_files(job, 1)
    run(postgres, "UPDATE names SET name = 'new'")
    feed(job, 1, 1)
    wait_until_read_files(job, 2)

    seen = {(row["id"] >= ROWS_A_FILE, row["name"]) for row in job.output()}

    assert seen == {(False, "OLD"), (True, "NEW")}
    assert len(job.output()) == 2 * ROWS_A_FILE == len(ALL_ROWS[: 2 * ROWS_A_FILE])


OTHERS = {
    "merge": "jdbc:h2:mem:{};DB_CLOSE_DELAY=-1",
    "plain SQL": "jdbc:derby:memory:{};create=true",
}


@pytest.mark.long
@pytest.mark.parametrize("kind", OTHERS)
def test_a_database_without_on_conflict_is_written_by_key_as_well(
    job: JobUnderTest, spark: SparkSession, kind: str
) -> None:
    url = OTHERS[kind].format(f"x{uuid4().hex[:8]}")
    driver = dialect_of(url).driver
    assert driver is not None
    jvm: Any = spark._jvm
    jvm.java.lang.System.setProperty("derby.stream.error.file", str(job.root / "derby.log"))
    database = JdbcDatabase(spark, JdbcOptions(url, {"driver": driver}))
    with database.connect() as connection:
        connection.execute("CREATE TABLE orders (id INTEGER NOT NULL PRIMARY KEY, v VARCHAR(20))")
        connection.execute("INSERT INTO orders VALUES (1, 'before'), (2, 'before')")
        connection.execute("INSERT INTO orders VALUES (3, 'before')")
    rows = [
        {"id": 1, "v": "changed", "op": "u"},
        {"id": 2, "v": "old", "op": "d"},
        {"id": 4, "v": "new", "op": "c"},
        {"id": 4, "v": "new", "op": "c"},
    ]
    changes = {"connector": "table", "schema": "id INT, v STRING, op STRING", "rows": rows}
    for _ in range(2):  # two jobs, the same changes
        writer = JobUnderTest(spark, job.root)
        writer.define(
            source("changes", **changes),
            sink("changes", connector="jdbc", url=url, table="orders", key=["id"], op_column="op"),
            mode="batch",
        ).run()

    with database.connect() as connection:
        found = connection.query("SELECT id, v FROM orders ORDER BY id")
        left = connection.tables(None, "hg_")
    assert found == [(1, "changed"), (3, "before"), (4, "new")]
    assert left == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("fields", "error", "message", "is_restartable"),
    [
        ({"password": "wrong"}, DatabaseRefused, "password authentication failed", True),
        ({"table": "nowhere"}, DatabaseRefused, "nowhere", False),
        ({"key": ["id"]}, TableUnfit, "no unique index on exactly (id)", False),
    ],
)
def test_what_a_database_refuses_is_told_in_its_words(
    job: JobUnderTest,
    postgres: JdbcPostgres,
    fields: Row,
    error: type[Exception],
    message: str,
    is_restartable: bool,
) -> None:
    run(postgres, "CREATE TABLE orders (id BIGINT)")
    rows = {"connector": "table", "schema": "id BIGINT", "rows": [{"id": 1}]}
    job.define(
        source("rows", **rows),
        sink("rows", **{**at(postgres), "table": "orders", **fields}),
        mode="batch",
    )

    with pytest.raises(error) as raised:
        job.run()

    failure = failure_of(raised.value)
    assert message in failure.message
    assert failure.is_restartable is is_restartable
    assert postgres.password not in failure.message + failure.stack
