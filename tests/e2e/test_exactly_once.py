"""Every record exactly once, with the runner killed again and again, for plain readers."""

import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.dataset
import pytest

from tests.support.oracle import Bids, WindowRow, generator_started_at, read_windows, twice
from tests.support.server import ServerProcess, eventually

ROWS = 5000
RATE = 200


def a_bounded_job(path: str, sink_format: str = "parquet") -> dict[str, Any]:
    return {
        "name": "bounded",
        "parallelism": 2,
        "checkpointing": {"interval": "1s"},
        "restart": {"strategy": "fixed_delay", "attempts": 10, "delay": "0s"},
        "vertices": [
            {
                "id": "bids",
                "op": "source",
                "connector": "generator",
                "rows_per_second": RATE,
                "rows": ROWS,
                "columns": {"auction": "id % 20", "price": "(id * 104729) % 1000 + 1", "ts": "ts"},
                "watermark": {"column": "ts", "delay": "1s"},
            },
            {"id": "big", "op": "filter", "inputs": ["bids"], "where": "price > 100"},
            {
                "id": "revenue",
                "op": "window",
                "inputs": ["big"],
                "key": ["auction"],
                "window": {"tumbling": "2s"},
                "aggregate": {"bids": "count(*)", "revenue": "sum(price)", "top": "max(price)"},
            },
            {
                "id": "out",
                "op": "sink",
                "inputs": ["revenue"],
                "connector": "files",
                "format": sink_format,
                "path": path,
            },
        ],
    }


def kill_runner(server: ServerProcess, job: str, attempt: int, pause: float) -> int:
    """Kills the running attempt a moment after it has begun; when the generator began.

    It is read before the kill: a finished job leaves no attempt directory behind.
    """
    status = server.until_state(job, "running")
    assert status["attempt"] == attempt
    eventually(lambda: begun(server, job, attempt), within=60)
    spark_dir = server.directory / "storage" / "jobs" / job / "attempts" / str(attempt) / "out"
    started_at = generator_started_at(spark_dir)
    time.sleep(pause)
    os.kill(status["runner"]["pid"], signal.SIGKILL)
    eventually(lambda: server.status(job)["attempt"] == attempt + 1, within=30)
    return started_at


def begun(server: ServerProcess, job: str, attempt: int) -> bool:
    """Whether the attempt has written down where its source begins: from then on it counts."""
    directory = server.directory / "storage" / "jobs" / job / "attempts" / str(attempt)
    return (directory / "out" / "offsets" / "0").exists()


def test_a_job_whose_runner_is_killed_writes_every_row_once(server: ServerProcess) -> None:
    seed = int(os.environ.get("HEADGATE_TEST_SEED", time.time_ns()))
    chance = random.Random(seed)
    output = server.directory / "data" / "killed"
    job = server.submit(a_bounded_job("killed"))

    expected: set[WindowRow] = set()
    for attempt in (1, 2):
        started_at = kill_runner(server, job, attempt, chance.uniform(0, 3))
        expected = Bids(RATE, started_at).windows(ROWS, 2000)
        # at any moment: nothing twice, nothing that is not in the result
        seen = read_windows(output)
        assert not twice(seen), f"seed {seed}"
        assert set(seen) <= expected, f"seed {seed}"
    server.until_state(job, "finished")

    written = read_windows(output)
    assert not twice(written), f"seed {seed}"
    assert set(written) == expected, f"seed {seed}"
    assert pyarrow.dataset.dataset(output).to_table().num_rows == len(written)
    everywhere = duckdb.execute(f"SELECT count(*) FROM '{output}/**/*.parquet'").fetchone()
    assert everywhere == (len(written),)


@pytest.mark.long
def test_csv_can_be_read_with_cat(server: ServerProcess) -> None:
    document = a_bounded_job("plain", "csv")
    document["vertices"][0]["rows"] = 600
    job = server.submit(document)
    server.until_state(job, "finished")

    directory: Path = server.directory / "data" / "plain"
    lines = [line for path in sorted(directory.glob("*")) for line in path.read_text().splitlines()]

    assert len(lines) == len(set(lines))
    counted = sum(int(line.split(",")[3]) for line in lines)
    assert counted == sum(number * 104_729 % 1000 + 1 > 100 for number in range(600))
