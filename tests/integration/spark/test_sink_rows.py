"""The newest rows of a sink, read from the output: what is shown is what was written last."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobmanager.protocol.inspection import Question, ReadSinkRows, Refusal, SinkRows
from jobmanager.protocol.messages import PathRoots
from taskrunner.core.cut_values import MOST_CHARACTERS
from taskrunner.inspector.request_handler import RequestHandler
from tests.integration.spark.jobs import JobUnderTest, Row, files_sink, some_rows, table
from tests.support.connector_jars import VARIABLE, installed_jars
from tests.support.kafka import a_broker

FILES, ROWS_A_FILE = 5, 10
NEWEST = set(range(40, 50))


@pytest.fixture
def handler(spark: SparkSession, tmp_path: Path) -> RequestHandler:
    return RequestHandler(spark, tmp_path / "scratch")


def fed(root: Path) -> Row:
    """A source that reads one file in each batch, in the order of their times."""
    directory = root / "in"
    directory.mkdir()
    for number in range(FILES):
        file = directory / f"{number}.json"
        rows = some_rows(ROWS_A_FILE, first=number * ROWS_A_FILE)
        file.write_text("\n".join(map(json.dumps, rows)))
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))
    return {
        "id": "rows",
        "op": "source",
        "connector": "files",
        "format": "json",
        "path": "in",
        "schema": "id BIGINT, k STRING, v BIGINT, ts TIMESTAMP",
        "max_files_per_batch": 1,
    }


def run(job: JobUnderTest) -> None:
    """Until all files are read."""
    job.start()
    job.wait_for_commit(lambda log, batch: batch >= FILES - 1)
    job.stop_at_boundary()


def ask(
    handler: RequestHandler,
    job: JobUnderTest,
    limit: int = 10,
    allowed: PathRoots | None = None,
) -> SinkRows | Refusal:
    asked = ReadSinkRows(
        graph=job.document,
        job=job.id,
        vertex="out",
        limit=limit,
        parallelism=2,
        data_root=str(job.root),
        allowed_paths=allowed,
    )
    answer = handler.answer(Question(id=1, within_ms=240_000, body=asked))
    assert isinstance(answer, SinkRows | Refusal)
    return answer


def shown(handler: RequestHandler, job: JobUnderTest, limit: int = 10) -> SinkRows:
    answer = ask(handler, job, limit)
    assert isinstance(answer, SinkRows), answer
    return answer


def refused(handler: RequestHandler, job: JobUnderTest, **asking: Any) -> str:
    answer = ask(handler, job, **asking)
    assert isinstance(answer, Refusal), answer
    assert answer.reason == "not_readable"
    return answer.message


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_the_rows_of_the_newest_batches_of_a_files_sink(
    job: JobUnderTest, handler: RequestHandler, kind: str
) -> None:
    job.define(fed(job.root), files_sink("rows", format=kind, path="all rows"))
    assert shown(handler, job).columns == []
    run(job)

    found = shown(handler, job)

    assert [(one.name, one.type) for one in found.columns] == [
        ("id", "bigint"),
        ("k", "string"),
        ("v", "bigint"),
        ("ts", "timestamp"),
    ]
    expected = {row["id"]: row for row in some_rows(FILES * ROWS_A_FILE)}
    assert {row["id"] for row in found.rows} == NEWEST
    for row in found.rows:
        assert (row["k"], row["v"]) == (expected[row["id"]]["k"], expected[row["id"]]["v"])
    assert found.origin.startswith("batch 4 in ")
    more = shown(handler, job, limit=15)
    assert len(more.rows) == 15
    assert {row["id"] for row in more.rows} <= set(range(30, 50))
    assert more.origin.startswith("batches 3 to 4 in ")


def test_a_column_that_is_a_directory_is_shown_and_a_deleted_file_is_left_out(
    job: JobUnderTest, handler: RequestHandler
) -> None:
    sink = files_sink("rows", partition_by=["k"])
    job.define(table(some_rows(30)), sink).run()
    gone = next((job.root / "out").rglob("k=k1/*.parquet"))
    gone.unlink()

    found = shown(handler, job, limit=100)

    assert sorted(row["id"] for row in found.rows) == sorted(
        row["id"] for row in some_rows(30) if row["k"] != "k1"
    )
    assert {row["k"] for row in found.rows} == {row["k"] for row in some_rows(30)} - {"k1"}


def test_the_newest_files_of_a_delta_table(job: JobUnderTest, handler: RequestHandler) -> None:
    sink = {"id": "out", "op": "sink", "inputs": ["rows"], "connector": "delta", "path": "orders"}
    job.define(fed(job.root), sink)
    assert shown(handler, job).columns == []
    run(job)

    found = shown(handler, job)

    assert len(found.rows) == 10
    assert {row["id"] for row in found.rows} <= NEWEST
    assert "of the table" in found.origin


def test_long_texts_are_cut_and_nested_values_stay(
    job: JobUnderTest, handler: RequestHandler
) -> None:
    add = {"long": "repeat('x', 5000)", "deep": "named_struct('xs', array(v, NULL))"}
    mapped = {"id": "wide", "op": "map", "inputs": ["rows"], "add": add}
    job.define(table(some_rows(1)), mapped, files_sink("wide", format="json")).run()

    [row] = shown(handler, job).rows

    assert row["long"] == "x" * MOST_CHARACTERS + "… (5,000 characters)"
    assert row["deep"] == {"xs": [0, None]}


def test_sinks_that_cannot_be_read_say_why(job: JobUnderTest, handler: RequestHandler) -> None:
    sink = {"id": "out", "op": "sink", "inputs": ["rows"]}
    job.define(table(some_rows(1)), {**sink, "connector": "blackhole"})
    assert "connector blackhole are not shown" in refused(handler, job)

    topic = {"connector": "kafka", "servers": "127.0.0.1:9", "topic": "t", "format": "json"}
    secret = {"options": {"kafka.ssl.truststore.password": "${secret:broker}"}}
    job.define(table(some_rows(1)), {**sink, **topic, **secret})
    assert "needs the secret broker" in refused(handler, job)


def test_paths_that_the_server_does_not_allow_are_not_read(
    job: JobUnderTest, handler: RequestHandler
) -> None:
    job.define(table(some_rows(3)), files_sink("rows")).run()
    elsewhere = str(job.root / "elsewhere")

    told = refused(handler, job, allowed=PathRoots(graphs=[elsewhere], snapshots=[elsewhere]))

    assert "out" in told


@pytest.mark.long
@pytest.mark.skipif(not installed_jars(), reason=f"needs make jars, and {VARIABLE}")
def test_the_last_records_of_a_topic(job: JobUnderTest, handler: RequestHandler) -> None:
    with a_broker() as broker:
        topic = broker.create("shown", partitions=2)
        sink = {
            "id": "out",
            "op": "sink",
            "inputs": ["rows"],
            "connector": "kafka",
            "servers": broker.servers,
            "topic": topic,
            "format": "json",
            "key": "k",
            "guarantee": "exactly_once",
            "visibility": "batch",
        }
        job.define(fed(job.root), sink)
        assert shown(handler, job).columns == []
        run(job)

        found = shown(handler, job, limit=50)

        assert [one.name for one in found.columns] == [
            "partition",
            "offset",
            "timestamp",
            "key",
            "value",
        ]
        values = sorted((json.loads(row["value"]) for row in found.rows), key=lambda one: one["id"])
        assert [one["id"] for one in values] == list(range(50))
        expected = {row["id"]: row["k"] for row in some_rows(50)}
        assert all(row["key"] == expected[json.loads(row["value"])["id"]] for row in found.rows)
