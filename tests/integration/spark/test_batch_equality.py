"""A graph gives the same in batch mode, as a bounded stream, and in DuckDB."""

from datetime import datetime
from typing import Any

import duckdb
import pyarrow

from tests.integration.spark.jobs import JobUnderTest, Row, files_sink, second, some_rows, table

ROWS = [row for row in some_rows(200) if row["id"] % 40 < 25]  # with gaps
RESULTS = {"n": "count(*)", "total": "sum(v)", "top": "max(v)"}
SUMS = "count(*) AS n, sum(v) AS total, max(v) AS top"
WINDOWS = {
    "tumbling": {"tumbling": "10s"},
    "sliding": {"sliding": "10s", "every": "5s"},
    "session": {"session": "3s"},
}
QUERIES = {
    "mapped": "SELECT id, k, v * 2 + 1 AS x FROM rows",
    "filtered": "SELECT id, k, v FROM rows WHERE v % 3 = 0 AND k <> 'k1'",
    "unioned": "SELECT id, k, v FROM rows WHERE v < 20 UNION ALL "
    "SELECT id, k, v FROM rows WHERE v % 3 = 0 AND k <> 'k1'",
    "aggregated": f"SELECT k, {SUMS} FROM rows GROUP BY k",
    "tumbling": f"SELECT k, s // 10 * 10 AS a, a + 10 AS b, {SUMS} FROM rows GROUP BY k, a",
    "sliding": f"SELECT k, a, a + 10 AS b, {SUMS} FROM "
    "(SELECT *, unnest([s // 5 * 5, s // 5 * 5 - 5]) AS a FROM rows) GROUP BY k, a",
    "session": f"SELECT k, min(s) AS a, max(s) + 3 AS b, {SUMS} FROM "
    "(SELECT *, sum(gap) OVER (PARTITION BY k ORDER BY id) AS session FROM "
    "(SELECT *, if(s - lag(s, 1, -99) OVER (PARTITION BY k ORDER BY id) >= 3, 1, 0) AS gap "
    "FROM rows)) GROUP BY k, session",
}


def graph() -> list[Row]:
    """Every operator, each with a sink of its own; several share their inputs."""
    after = {"inputs": ["rows"]}
    plain = {"id": "id", "k": "k", "v": "v"}
    vertices: list[Row] = [
        table(ROWS),
        {"id": "mapped", "op": "map", **after, "select": {"id": "id", "k": "k", "x": "v * 2 + 1"}},
        {"id": "some", "op": "filter", **after, "where": "v % 3 = 0 AND k <> 'k1'"},
        {"id": "filtered", "op": "map", "inputs": ["some"], "select": plain},
        {"id": "small", "op": "filter", **after, "where": "v < 20"},
        {"id": "few", "op": "map", "inputs": ["small"], "select": plain},
        {"id": "unioned", "op": "union", "inputs": ["few", "filtered"]},
        {"id": "aggregated", "op": "aggregate", **after, "key": ["k"], "aggregate": RESULTS},
    ]
    for name, kind in WINDOWS.items():
        window = {"op": "window", **after, "key": ["k"], "window": kind, "aggregate": RESULTS}
        vertices.append({"id": name, **window})
    sinks = [files_sink(name, id=f"to_{name}", path=name) for name in QUERIES]
    return [*vertices, *sinks]


def plain(value: Any) -> Any:
    return int((value - second(0)).total_seconds()) if isinstance(value, datetime) else value


def output(job: JobUnderTest) -> dict[str, list[tuple[Any, ...]]]:
    return {
        name: sorted(tuple(map(plain, row.values())) for row in job.output(name))
        for name in QUERIES
    }


def in_duckdb() -> dict[str, list[tuple[Any, ...]]]:
    seconds = [{**row, "s": plain(datetime.fromisoformat(row["ts"]))} for row in ROWS]
    with duckdb.connect() as connection:
        connection.register("rows", pyarrow.Table.from_pylist(seconds))
        return {
            name: sorted(connection.execute(query).fetchall()) for name, query in QUERIES.items()
        }


def test_batch_and_bounded_stream_and_duckdb_agree(job: JobUnderTest) -> None:
    expected = in_duckdb()
    assert all(expected.values())

    job.define(*graph(), mode="batch").run()
    assert output(job) == expected

    stream = JobUnderTest(job.spark, job.root / "stream")
    stream.define(*graph()).run()
    assert output(stream) == expected


def test_what_two_sinks_share_is_computed_once(job: JobUnderTest) -> None:
    random = {"id": "random", "op": "map", "inputs": ["rows"], "add": {"dice": "rand()"}}
    low = {"id": "low", "op": "filter", "inputs": ["random"], "where": "dice < 0.5"}
    sinks = [files_sink("random", id="all", path="all"), files_sink("low", id="some", path="some")]

    job.define(table(ROWS), random, low, *sinks, mode="batch").run()

    thrown = {row["id"]: row["dice"] for row in job.output("all")}
    assert {row["id"]: row["dice"] for row in job.output("some")} == {
        row: dice for row, dice in thrown.items() if dice < 0.5
    }
    assert job.running is not None
    assert [region.progress().loops for region in job.running.regions] == [[], []]
