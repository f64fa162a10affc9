"""The main path, with everything real: server, embedded Postgres, runner, Spark.

Submit the quickstart, watch checkpoints complete, compare the key-group map with
where Spark keeps the state, kill the runner, cancel, and compare the output with
a computation of the same input in plain Python.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest
import yaml

from tests.support.oracle import Bids, generator_started_at, read_windows, twice
from tests.support.server import ServerProcess, eventually

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart.yaml"


@pytest.fixture
def embedded(directory: Path) -> Iterator[ServerProcess]:
    made = ServerProcess(directory / "embedded")
    try:
        yield made.start()
    finally:
        made.clean_up()


def quickstart() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(QUICKSTART.read_text())
    document["checkpointing"] = {"interval": "2s"}
    return document


def state_partitions(spark_checkpoint_dir: Path, batch: int) -> list[dict[str, int]]:
    """For each key in Spark's state: its key group by Spark's hash, and its partition."""
    script = Path(__file__).parent / "read_state.py"
    read = subprocess.run(
        [sys.executable, str(script), str(spark_checkpoint_dir), str(batch), "720"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert read.returncode == 0, read.stderr[-3000:]
    return [
        {"key_group": int(group), "partition": int(partition)}
        for group, partition in (line.split() for line in read.stdout.splitlines())
    ]


@pytest.mark.long
def test_quickstart_from_submission_to_cancellation(embedded: ServerProcess) -> None:
    server = embedded
    job = server.submit(quickstart())
    job_dir = server.directory / "storage" / "jobs" / job
    output = server.directory / "data" / "out" / "revenue"

    # Three checkpoints complete, each with an ack of every subtask.
    server.until_checkpoint(job, 3)
    checkpoints = [server.get(f"/v1/jobs/{job}/checkpoints/{number}") for number in (1, 2, 3)]
    for found in checkpoints:
        acked = [(ack["vertex"], ack["subtask"], ack["kind"]) for ack in found["acks"]]
        assert (found["status"], found["awaited"]) == ("completed", [])
        assert sorted(acked) == [
            ("bids", 0, "offsets"),
            ("out", 0, "sink"),
            ("revenue", 0, "state"),
            ("revenue", 1, "state"),
        ]
    found = checkpoints[-1]
    for ack in found["acks"]:
        if ack["kind"] == "state":
            assert (job_dir / ack["pointer"]).stat().st_size > 0
            assert ack["version"] == found["batch"]["out"] + 1
    verified = server.http.post(f"/v1/jobs/{job}/checkpoints/{found['number']}/verify").json()
    assert verified["faults"] == []
    assert verified["files"] > 4

    # The runner is killed. The job goes on from the last batch it committed.
    before = server.status(job)
    os.kill(before["runner"]["pid"], signal.SIGKILL)
    eventually(lambda: server.status(job)["attempt"] == 2, within=30)
    status = server.until_state(job, "running")
    [restored] = status["restored"]
    assert (restored["origin"], restored["source"]) == ("attempt", 1)
    assert restored["batch"] >= found["batch"]["out"]
    last = server.until_checkpoint(job, before["last_checkpoint"]["number"] + 2)
    eventually(lambda: len(read_windows(output)) > 60, within=60)

    # Cancelled at a boundary: no process is left.
    assert server.http.patch(f"/v1/jobs/{job}?mode=cancel").status_code == 202
    server.until_state(job, "cancelled")
    eventually(lambda: not server.runner_processes(), within=30)

    # The map in Postgres is where Spark keeps the state of every key.
    owners = {
        group: one["subtask"]
        for one in server.get(f"/v1/jobs/{job}/key-groups")["vertices"][0]["subtasks"]
        for group in one["key_groups"]
    }
    spark_dir = job_dir / "attempts" / "2" / "out"
    committed = max(int(path.name) for path in (spark_dir / "commits").glob("[0-9]*"))
    assert committed >= last["batch"]["out"]
    keys = state_partitions(spark_dir, committed)
    assert len(keys) >= 20
    assert all(owners[key["key_group"]] == key["partition"] for key in keys)

    # Every window that was closed is there once, and right; none that was not.
    written = read_windows(output)
    started_at = generator_started_at(spark_dir)
    rows = int((spark_dir / "offsets" / str(committed)).read_text().splitlines()[-1]) * 200
    expected = Bids(200, started_at).windows(rows, 5000)
    newest = max(row[1] for row in written)
    assert not twice(written)
    assert set(written) == {row for row in expected if row[1] <= newest}
    table = pyarrow.dataset.dataset(output).to_table()
    assert table.num_rows == len(written)
    assert table.column_names == ["auction", "window_start", "window_end", "bids", "revenue", "top"]

    # The embedded Postgres keeps everything across a restart of the server.
    checkpoints = server.get(f"/v1/jobs/{job}/checkpoints")["counts"]
    assert server.stop() == 0
    server.start()
    assert server.status(job)["state"] == "cancelled"
    assert server.get(f"/v1/jobs/{job}/checkpoints")["counts"] == checkpoints
