"""Jobs that end by themselves: bounded streams, batches, and graphs that Spark refuses."""

import json
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.support.server import ServerProcess, eventually

MIDNIGHT = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
ROWS = [{"k": f"k{n % 3}", "v": n, "ts": f"2026-01-01T00:00:{n:02d}Z"} for n in range(30)]


def a_graph(*vertices: dict[str, Any], mode: str = "streaming") -> dict[str, Any]:
    return {"name": "ends", "mode": mode, "parallelism": 2, "vertices": list(vertices)}


def a_table() -> dict[str, Any]:
    return {
        "id": "rows",
        "op": "source",
        "connector": "table",
        "schema": "k STRING, v BIGINT, ts TIMESTAMP",
        "rows": ROWS,
        "watermark": {"column": "ts", "delay": "1s"},
    }


def a_sink(source: str, path: str, vertex_id: str = "out") -> dict[str, Any]:
    return {
        "id": vertex_id,
        "op": "sink",
        "inputs": [source],
        "connector": "files",
        "format": "json",
        "path": path,
    }


def sliding(source: str) -> dict[str, Any]:
    return {
        "id": "windows",
        "op": "window",
        "inputs": [source],
        "key": ["k"],
        "window": {"sliding": "10s", "every": "5s"},
        "aggregate": {"total": "sum(v)", "n": "count(*)"},
    }


def expected_windows() -> set[tuple[str, int, int, int]]:
    """k, start second relative to midnight, total, n: by hand."""
    found: dict[tuple[str, int], list[int]] = defaultdict(list)
    for second in range(30):
        for start in range(-5, 30, 5):
            if start <= second < start + 10:
                found[f"k{second % 3}", start].append(second)
    return {(k, start, sum(values), len(values)) for (k, start), values in found.items()}


def read_sliding(directory: Path) -> list[tuple[str, int, int, int]]:
    return duckdb.execute(
        f"""SELECT k, epoch(window_start::TIMESTAMPTZ)::BIGINT - {MIDNIGHT}, total, n
            FROM read_json('{directory}/*.json')"""
    ).fetchall()


@pytest.mark.long
def test_a_bounded_stream_emits_every_window_and_finishes(server: ServerProcess) -> None:
    """Two regions: windows in one file, running totals with a union in the other."""
    job = server.submit(
        a_graph(
            a_table(),
            sliding("rows"),
            a_sink("windows", "sliding"),
            {**a_table(), "id": "more"},
            {"id": "all", "op": "union", "inputs": ["rows", "more"]},
            {"id": "named", "op": "map", "inputs": ["all"], "select": {"key": "k", "w": "v * 2"}},
            {
                "id": "totals",
                "op": "aggregate",
                "inputs": ["named"],
                "key": ["key"],
                "aggregate": {"total": "sum(w)"},
            },
            a_sink("totals", "totals", "sums"),
        )
    )
    server.until_state(job, "finished")
    eventually(lambda: not server.runner_processes(), within=30)

    windows = read_sliding(server.directory / "data" / "sliding")
    assert len(windows) == len(set(windows))
    assert set(windows) == expected_windows()
    totals = duckdb.execute(
        f"""SELECT key, max(total) FROM read_json('{server.directory}/data/totals/*.json')
            GROUP BY key ORDER BY key"""
    ).fetchall()
    assert totals == [(f"k{k}", 4 * sum(range(k, 30, 3))) for k in range(3)]


@pytest.mark.long
def test_a_batch_job_gives_the_same_result(server: ServerProcess) -> None:
    source = server.directory / "data" / "input"
    source.mkdir(parents=True)
    (source / "rows.json").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    files = {
        "id": "rows",
        "op": "source",
        "connector": "files",
        "format": "json",
        "path": "input",
        "schema": "k STRING, v BIGINT, ts TIMESTAMP",
    }
    window = {**sliding("rows"), "time": "ts"}
    job = server.submit(a_graph(files, window, a_sink("windows", "batch"), mode="batch"))

    server.until_state(job, "finished")

    windows = read_sliding(server.directory / "data" / "batch")
    assert len(windows) == len(set(windows))
    assert set(windows) == expected_windows()
    assert server.get(f"/v1/jobs/{job}")["job-type"] == "BATCH"


@pytest.mark.long
def test_an_expression_spark_refuses_fails_the_job_at_once_with_the_vertex(
    server: ServerProcess,
) -> None:
    wrong = {"id": "big", "op": "filter", "inputs": ["rows"], "where": "prize > 100"}
    job = server.submit(a_graph(a_table(), wrong, a_sink("big", "never")))

    status = server.until_state(job, "failed")

    assert status["attempt"] == 1
    assert "big" in status["reason"]
    assert "prize" in status["reason"]
    [entry] = server.get(f"/v1/jobs/{job}/exceptions")["exceptionHistory"]["entries"]
    assert entry["exceptionName"] == "invalid_job"
    assert "Traceback" in entry["stacktrace"]
    log = server.http.get(f"/v1/jobs/{job}/logs").text
    assert "prize" in log
    assert not (server.directory / "data" / "never").exists()
