"""A plain Spark query is killed half-way, adopted, and finished by a job: each row counts once."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

import jobmanager.client.adopt_command  # noqa: F401 - adds its command to the app
from jobmanager.client.cli import app, run
from tests.support.server import ServerProcess, eventually

FILES = 30
ROWS: list[dict[str, Any]] = [{"k": f"k{n % 7}", "v": n * 37 % 101} for n in range(FILES * 20)]
GRAPH: dict[str, Any] = {
    "name": "sums",
    "parallelism": 2,
    "checkpointing": {"interval": "1s"},
    "vertices": [
        {
            "id": "rows",
            "op": "source",
            "connector": "files",
            "format": "json",
            "path": "in",
            "schema": "k STRING, v BIGINT",
            "max_files_per_batch": 10,
        },
        {
            "id": "sums",
            "op": "aggregate",
            "inputs": ["rows"],
            "key": ["k"],
            "aggregate": {"n": "count(*)", "total": "sum(v)"},
        },
        {
            "id": "out",
            "op": "sink",
            "inputs": ["sums"],
            "connector": "files",
            "format": "parquet",
            "path": "out",
        },
    ],
}


def commits(checkpoint: Path) -> int:
    return len(list((checkpoint / "commits").glob("[0-9]*")))


def run_half_way(source: Path, checkpoint: Path) -> None:
    """Starts the query, and kills it when it has done some of its batches."""
    script = Path(__file__).parent / "plain_query.py"
    command = [sys.executable, str(script), source.as_uri(), str(checkpoint)]
    query = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: commits(checkpoint) >= 4, within=120)
    finally:
        query.send_signal(signal.SIGKILL)
        query.wait()


def newest(output: Path) -> dict[str, tuple[int, int]]:
    if not any(output.glob("*.parquet")):
        return {}
    rows = duckdb.execute(
        f"SELECT k, max(n), max_by(total, n) FROM read_parquet('{output}/*.parquet') GROUP BY k"
    ).fetchall()
    return {k: (n, total) for k, n, total in rows}


def expected() -> dict[str, tuple[int, int]]:
    keys = {row["k"] for row in ROWS}
    mine = {key: [row["v"] for row in ROWS if row["k"] == key] for key in keys}
    return {str(key): (len(values), sum(values)) for key, values in mine.items()}


@pytest.mark.long
def test_a_killed_query_is_adopted_and_finished(
    server: ServerProcess, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    source, checkpoint = server.directory / "data" / "in", tmp_path / "checkpoint"
    source.mkdir(parents=True)
    for number in range(FILES):
        lines = "".join(json.dumps(row) + "\n" for row in ROWS[number * 20 : number * 20 + 20])
        (source / f"{number:03d}.json").write_text(lines)
    run_half_way(source, checkpoint)
    done = commits(checkpoint)
    assert done < FILES

    (tmp_path / "graph.json").write_text(json.dumps(GRAPH))
    arguments = ["adopt", str(checkpoint), "--graph", str(tmp_path / "graph.json"), "--json"]
    assert run(app, [*arguments, "--url", server.url]) == 0
    savepoint = json.loads(capsys.readouterr().out)
    assert (savepoint["status"], savepoint["job"]) == ("completed", None)
    assert savepoint["regions"]["out"]["batch"] == done - 1
    assert savepoint["parallelism"] == 2
    verified = server.http.post(f"/v1/savepoints/{savepoint['id']}/verify").json()
    assert verified["faults"] == []

    answer = server.http.post("/v1/jobs", params={"savepoint": savepoint["id"]}, json=GRAPH)
    assert answer.status_code == 202, answer.text
    job = answer.json()["jobid"]
    output = server.directory / "data" / "out"
    eventually(
        lambda: newest(output) == expected(), within=120, explain=lambda: str(newest(output))
    )
    server.until_checkpoint(job, 1)
    server.http.patch(f"/v1/jobs/{job}?mode=cancel")
    server.until_state(job, "cancelled")
