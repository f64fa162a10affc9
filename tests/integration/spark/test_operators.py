"""Every operator in a bounded streaming job, against an independent computation."""

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from jobmanager.core.life.failure import FailureKind
from taskrunner.core.failures import classify
from taskrunner.spark.compile.compiler import InvalidVertex
from taskrunner.spark.run.causes import causes_of, stack_of
from tests.integration.spark.jobs import (
    OUT,
    JobUnderTest,
    Row,
    files_sink,
    second,
    some_rows,
    table,
)

ROWS = some_rows()
RESULTS = {"n": "count(*)", "total": "sum(v)", "top": "max(v)"}


def window(kind: dict[str, str], key: list[str]) -> Row:
    return {
        "id": "windows",
        "op": "window",
        "inputs": ["rows"],
        "key": key,
        "time": "ts",
        "window": kind,
        "aggregate": RESULTS,
    }


def starts_of_windows(size: int, every: int) -> Any:
    def starts(moment: int) -> Iterator[int]:
        start = moment // every * every
        while start > moment - size:
            yield start
            start -= every

    return starts


def expected_windows(size: int, every: int, by_key: bool) -> set[tuple[Any, ...]]:
    groups: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for row in ROWS:
        for start in starts_of_windows(size, every)(row["id"] // 5):
            groups[row["k"] if by_key else None, start].append(row["v"])
    return {
        (key, second(start), second(start + size), len(values), sum(values), max(values))
        for (key, start), values in groups.items()
    }


def expected_sessions(rows: list[Row], gap: int, by_key: bool) -> set[tuple[Any, ...]]:
    found: dict[Any, list[list[tuple[int, int]]]] = defaultdict(list)
    for row in rows:
        sessions = found[row["k"] if by_key else None]
        moment = (datetime.fromisoformat(row["ts"]) - second(0)) // timedelta(seconds=1)
        if not sessions or moment - sessions[-1][-1][0] >= gap:
            sessions.append([])
        sessions[-1].append((moment, row["v"]))
    return {
        (
            key,
            second(one[0][0]),
            second(one[-1][0] + gap),
            len(one),
            sum(v for _, v in one),
            max(v for _, v in one),
        )
        for key, sessions in found.items()
        for one in sessions
    }


def seen(job: JobUnderTest) -> set[tuple[Any, ...]]:
    rows = job.output()
    found = {
        (r.get("k"), r["window_start"], r["window_end"], r["n"], r["total"], r["top"]) for r in rows
    }
    assert len(found) == len(rows), "a window was emitted twice"
    return found


@pytest.mark.parametrize("key", [["k"], []])
def test_tumbling_windows(job: JobUnderTest, key: list[str]) -> None:
    job.define(table(ROWS), window({"tumbling": "10s"}, key), files_sink("windows")).run()

    assert seen(job) == expected_windows(10, 10, by_key=bool(key))


def test_sliding_windows(job: JobUnderTest) -> None:
    kind = {"sliding": "10s", "every": "5s"}
    job.define(table(ROWS), window(kind, ["k"]), files_sink("windows")).run()

    assert seen(job) == expected_windows(10, 5, by_key=True)


@pytest.mark.parametrize("by_key", [True, False])
def test_session_windows(job: JobUnderTest, by_key: bool) -> None:
    rows = [row for row in ROWS if row["id"] % 40 < 15]  # with gaps
    key = ["k"] if by_key else []
    job.define(table(rows), window({"session": "3s"}, key), files_sink("windows")).run()

    assert seen(job) == expected_sessions(rows, 3, by_key)


def test_windows_come_out_as_key_start_end_and_results(job: JobUnderTest) -> None:
    job.define(table(ROWS), window({"tumbling": "10s"}, ["k"]), files_sink("windows")).run()

    assert list(job.output()[0]) == ["k", "window_start", "window_end", "n", "total", "top"]


def test_an_aggregate_ends_at_the_result_of_each_key(job: JobUnderTest) -> None:
    aggregate = {"id": "sums", "op": "aggregate", "inputs": ["rows"], "key": ["k"]}
    job.define(table(ROWS), {**aggregate, "aggregate": RESULTS}, files_sink("sums")).run()

    expected: dict[str, list[int]] = defaultdict(list)
    for row in ROWS:
        expected[row["k"]].append(row["v"])
    assert {(r["k"], r["n"], r["total"], r["top"]) for r in job.output()} == {
        (key, len(values), sum(values), max(values)) for key, values in expected.items()
    }


def test_an_aggregate_without_a_key_is_one_group(job: JobUnderTest) -> None:
    aggregate = {"id": "sums", "op": "aggregate", "inputs": ["rows"], "aggregate": RESULTS}
    job.define(table(ROWS), aggregate, files_sink("sums")).run()

    values = [row["v"] for row in ROWS]
    assert job.output() == [{"n": len(values), "total": sum(values), "top": max(values)}]


def test_map_filter_and_union(job: JobUnderTest) -> None:
    job.define(
        table(ROWS),
        {"id": "few", "op": "filter", "inputs": ["rows"], "where": "v < 20"},
        {"id": "many", "op": "filter", "inputs": ["rows"], "where": "v >= 80"},
        {"id": "marked", "op": "map", "inputs": ["many"], "add": {"twice": "v * 2"}},
        {"id": "plain", "op": "map", "inputs": ["few"], "add": {"twice": "-v"}},
        {"id": "both", "op": "union", "inputs": ["marked", "plain"]},
        {"id": "last", "op": "map", "inputs": ["both"], "select": {"id": "id", "x": "twice + 1"}},
        files_sink("last"),
    ).run()

    expected = [(r["id"], r["v"] * 2 + 1) for r in ROWS if r["v"] >= 80]
    expected += [(r["id"], 1 - r["v"]) for r in ROWS if r["v"] < 20]
    assert sorted((r["id"], r["x"]) for r in job.output()) == sorted(expected)


def test_a_union_of_two_keyed_vertices_keeps_their_states_apart(job: JobUnderTest) -> None:
    tumbling = {**window({"tumbling": "10s"}, ["k"]), "id": "wide"}
    session = {**window({"session": "2s"}, ["k"]), "id": "sessions"}
    both = {"id": "both", "op": "union", "inputs": ["sessions", "wide"]}
    job.define(table(ROWS), tumbling, session, both, files_sink("both")).run()

    manifest = job.checkpoint(1)

    pointers = {(p.vertex, p.subtask): p.pointer for p in manifest.regions[OUT].pointers}
    assert {vertex for vertex, _ in pointers} == {"wide", "sessions"}
    names = job.state_operators()
    assert names["sessions"].startswith("sessionWindow")
    assert names["wide"] == "stateStoreSave"
    for (vertex, _), pointer in pointers.items():
        assert f"/state/{['sessions', 'wide'].index(vertex)}/" in pointer


def test_a_rebalanced_sink_writes_with_its_own_parallelism(job: JobUnderTest) -> None:
    job.define(table(ROWS), files_sink("rows", parallelism=1)).run()

    assert len(list((job.root / "out").iterdir())) == 1
    assert len(job.output()) == len(ROWS)


def test_partitioned_output_is_read_back_with_its_column(job: JobUnderTest) -> None:
    job.define(table(ROWS), files_sink("rows", partition_by=["k"])).run()

    assert sorted((r["id"], r["k"]) for r in job.output()) == [(r["id"], r["k"]) for r in ROWS]


def test_a_bounded_generator_gives_its_rows_and_no_more(job: JobUnderTest) -> None:
    columns = {"id": "id", "ts": "ts", "k": "concat('k', id % 3)"}
    generator = {"id": "rows", "op": "source", "connector": "generator", "columns": columns}
    source = {**generator, "rows_per_second": 100, "rows": 130}
    job.define(source, files_sink("rows")).run()

    assert sorted(r["id"] for r in job.output()) == list(range(130))
    assert job.running is not None
    assert job.running.regions[0].progress().input_rows == 130


def test_a_batch_job_gives_what_the_bounded_stream_gives(job: JobUnderTest) -> None:
    job.define(
        table(ROWS), window({"tumbling": "10s"}, ["k"]), files_sink("windows"), mode="batch"
    ).run()

    assert seen(job) == expected_windows(10, 10, by_key=True)
    # and a second attempt leaves what is done alone
    job.run()
    assert seen(job) == expected_windows(10, 10, by_key=True)


def test_what_spark_refuses_is_reported_with_the_vertex(job: JobUnderTest) -> None:
    broken = {"id": "broken", "op": "filter", "inputs": ["rows"], "where": "nosuch > 1"}

    with pytest.raises(InvalidVertex, match=r"vertex broken: where: \[UNRESOLVED_COLUMN"):
        job.define(table(ROWS), broken, files_sink("broken")).start()


def test_a_table_row_of_another_type_is_a_failure_of_the_data(job: JobUnderTest) -> None:
    rows = [{"id": 1, "k": "a", "v": "not a number", "ts": second(0).isoformat()}]

    with pytest.raises((PySparkException, Py4JJavaError)) as raised:
        job.define(table(rows), files_sink("rows")).run()

    failure = classify(causes_of(raised.value), stack_of(raised.value), "out")
    assert failure.kind is FailureKind.DATA
    assert failure.message.startswith("[CANNOT_PARSE_JSON_FIELD] Cannot parse the field name 'v'")
