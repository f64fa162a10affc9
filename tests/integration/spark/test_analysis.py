"""A graph analysed by Spark before it is a job: every fault with vertex and field, at once."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobmanager.protocol.inspection import Analysed, AnalyseGraph, Question
from jobmanager.protocol.messages import PathRoots
from taskrunner.inspector.request_handler import RequestHandler
from tests.integration.spark.jobs import Row, files_sink, some_rows, table

SUMS: Row = {
    "id": "sums",
    "op": "aggregate",
    "inputs": ["rows"],
    "key": ["k"],
    "aggregate": {"total": "sum(v)"},
}


@pytest.fixture
def handler(spark: SparkSession, tmp_path: Path) -> RequestHandler:
    return RequestHandler(spark, tmp_path / "scratch")


def analyse(
    handler: RequestHandler,
    tmp_path: Path,
    *vertices: Row,
    allowed: PathRoots | None = None,
    **fields: Any,
) -> Analysed:
    document = {"name": "test", "max_parallelism": 12, "vertices": list(vertices), **fields}
    asked = AnalyseGraph(
        graph=document, parallelism=2, data_root=str(tmp_path), allowed_paths=allowed
    )
    answer = handler.answer(Question(id=1, within_ms=240_000, body=asked))
    assert isinstance(answer, Analysed), answer
    assert not any((tmp_path / "scratch" / "analyses").iterdir())
    return answer


def test_a_sound_graph_has_a_plan_and_no_fault(handler: RequestHandler, tmp_path: Path) -> None:
    found = analyse(handler, tmp_path, table(some_rows(5)), SUMS, files_sink("sums"))

    assert found.faults == []
    [plan] = found.plans
    assert plan.region == "out"
    assert "Exchange hashpartitioning(k" in plan.text
    assert "StateStoreSave" in plan.text
    assert not (tmp_path / "out").exists()


def test_files_on_remote_file_systems_are_not_looked_at(
    handler: RequestHandler, tmp_path: Path
) -> None:
    """The server may have no credentials, and no way there: nobody listens on these ports."""
    source = {"id": "rows", "op": "source", "connector": "files", "format": "json"}
    source |= {"path": "hdfs://127.0.0.1:1/in", "schema": "k STRING, v BIGINT"}
    sink = files_sink("sums", path="s3a://bucket/out", options={"fs.s3a.secret.key": "${secret:x}"})

    found = analyse(handler, tmp_path, source, SUMS, sink)

    assert found.faults == []
    assert not (tmp_path / "no-files").exists()


def test_every_fault_is_found_at_once_with_its_field(
    handler: RequestHandler, tmp_path: Path
) -> None:
    vertices = [
        table(some_rows(5)),
        {"id": "big", "op": "filter", "inputs": ["rows"], "where": "v >>> 1 and nosuch"},
        {**SUMS, "aggregate": {"a": "sum(missing)", "b": "sum(v)"}},
        {"id": "odd", "op": "map", "inputs": ["rows"], "add": {"x": "v + 1", "y": "date(k, 1, 2)"}},
        {"id": "after", "op": "filter", "inputs": ["odd"], "where": "also_nosuch = 1"},
        files_sink("big"),
        files_sink("sums", id="out2", path="out2"),
        files_sink("after", id="out3", path="out3"),
    ]

    found = analyse(handler, tmp_path, *vertices)

    assert [(one.vertex, one.field) for one in found.faults] == [
        ("big", "where"),
        ("sums", "aggregate.a"),
        ("odd", "add.y"),
    ]
    assert "missing" in found.faults[1].message
    assert all("\n" not in one.message for one in found.faults)
    assert found.plans == []


def test_the_regions_that_are_sound_are_planned_beside_one_that_is_not(
    handler: RequestHandler, tmp_path: Path
) -> None:
    broken = {"id": "big", "op": "filter", "inputs": ["rows"], "where": "nosuch > 1"}
    vertices = [table(some_rows(5)), broken, SUMS, files_sink("big")]

    found = analyse(handler, tmp_path, *vertices, files_sink("sums", id="fine", path="fine"))

    assert [(one.vertex, one.field) for one in found.faults] == [("big", "where")]
    assert [one.region for one in found.plans] == ["fine"]


def test_a_batch_graph_is_planned_as_one(handler: RequestHandler, tmp_path: Path) -> None:
    found = analyse(handler, tmp_path, table(some_rows(5)), SUMS, files_sink("sums"), mode="batch")

    assert found.faults == []
    assert "StateStore" not in found.plans[0].text


def test_a_statement_that_is_no_query_is_refused_before_spark_carries_it_out(
    handler: RequestHandler, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    statements = [
        f"INSERT OVERWRITE DIRECTORY '{target}' USING csv SELECT k FROM rows",
        f"FROM rows INSERT OVERWRITE DIRECTORY '{target}' USING csv SELECT k",
        f"WITH a AS (SELECT 1) INSERT OVERWRITE DIRECTORY '{target}' USING csv SELECT * FROM a",
        "SET spark.sql.runSQLOnFiles=true",
        "CREATE TEMPORARY VIEW v USING text OPTIONS (path '/etc/hostname')",
        "BEGIN SELECT 1; END",
        "EXECUTE IMMEDIATE 'SET a=b'",
    ]
    vertices = [
        {"id": f"s{n}", "op": "sql", "inputs": ["rows"], "query": text}
        for n, text in enumerate(statements)
    ]
    sinks = [files_sink(f"s{n}", id=f"o{n}", path=f"o{n}") for n in range(len(statements))]
    found = analyse(handler, tmp_path, table(some_rows(2)), *vertices, *sinks, mode="batch")

    assert [one.vertex for one in found.faults] == [f"s{n}" for n in range(len(statements))]
    assert all("is no query" in one.message for one in found.faults), found.faults
    assert not target.exists()


def test_sql_reads_no_file_where_paths_are_restricted(
    handler: RequestHandler, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("header of a secret\n")
    query = f"SELECT s.value FROM rows JOIN text.`{tmp_path}/secret` s"
    vertices = (
        table(some_rows(2)),
        {"id": "sql", "op": "sql", "inputs": ["rows"], "query": query},
        files_sink("sql"),
    )
    roots = PathRoots(graphs=[str(tmp_path)], snapshots=[])
    on = {"spark.sql.runSQLOnFiles": "true"}

    refused = analyse(handler, tmp_path, *vertices, mode="batch", allowed=roots, spark=on)
    taken = analyse(handler, tmp_path, *vertices, mode="batch")

    [fault] = refused.faults
    assert (fault.vertex, fault.field) == ("sql", "query")
    assert "cannot be found" in fault.message
    assert taken.faults == []


def test_whoever_analyses_a_graph_looks_at_its_paths_too(
    handler: RequestHandler, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "in").symlink_to("/etc")
    source = {"id": "rows", "op": "source", "connector": "files", "format": "text"}
    roots = PathRoots(graphs=[str(tmp_path / "data")], snapshots=[])

    found = analyse(
        handler, tmp_path, {**source, "path": "data/in"}, files_sink("rows"), allowed=roots
    )

    assert [one.vertex for one in found.faults] == ["rows"]
    assert "/etc is not allowed: this server allows" in found.faults[0].message
