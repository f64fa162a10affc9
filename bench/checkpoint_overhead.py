"""The cost of checkpoints: the same input with one every second, every 10 seconds, and none.

    python -m bench.checkpoint_overhead 3       # rounds

One server; the three jobs of a round run one after the other, each round in another order.
Reported is the time from the first batch to the last, and its ratio to the job without checkpoints.
"""

import json
import statistics
import sys
from pathlib import Path
from typing import Any

from bench.support import a_server, say, spark_checkpoint_dir, table
from tests.support.server import ServerProcess, eventually

INTERVALS = {"1 s": "1s", "10 s": "10s", "none": "1d"}
_FILES, _ROWS, _KEYS = 120, 20_000, 50_000


def main(rounds: int) -> None:
    took: dict[str, list[float]] = {name: [] for name in INTERVALS}
    with a_server() as server:
        _write_input(server.directory / "data" / "in")
        for number in range(rounds):
            names = list(INTERVALS)
            for name in names[number % 3 :] + names[: number % 3]:
                took[name].append(_measure(server, name))
                say(f"round {number + 1}, checkpoints {name}: {took[name][-1]:.1f} s")
    ratios = {
        name: [mine / none for mine, none in zip(took[name], took["none"], strict=True)]
        for name in INTERVALS
    }
    table(
        ["checkpoints", "seconds (median)", "ratio to none (median)", "ratios"],
        [
            [
                name,
                f"{statistics.median(took[name]):.1f}",
                f"{statistics.median(ratios[name]):.2f}",
                ", ".join(f"{one:.2f}" for one in ratios[name]),
            ]
            for name in INTERVALS
        ],
        "checkpoint_overhead",
    )


def _measure(server: ServerProcess, name: str) -> float:
    """Seconds from the first batch that was committed to the last one."""
    job = server.submit(_document(INTERVALS[name]))
    server.until_state(job, "running")
    commits = spark_checkpoint_dir(server.directory / "storage", job, "out") / "commits"
    last = commits / str(_FILES // 2 - 1)
    eventually(last.exists, within=1800)
    spent = last.stat().st_mtime - (commits / "0").stat().st_mtime
    server.http.patch(f"/v1/jobs/{job}")
    server.until_state(job, "cancelled")
    return spent


def _document(interval: str) -> dict[str, Any]:
    return {
        "name": f"checkpoints {interval}",
        "parallelism": 2,
        "checkpointing": {"interval": interval},
        "vertices": [
            {
                "id": "rows",
                "op": "source",
                "connector": "files",
                "format": "json",
                "path": "in",
                "schema": "k BIGINT, v BIGINT",
                "max_files_per_batch": 2,
            },
            {
                "id": "sums",
                "op": "aggregate",
                "inputs": ["rows"],
                "key": ["k"],
                "aggregate": {"n": "count(*)", "total": "sum(v)"},
            },
            {"id": "out", "op": "sink", "inputs": ["sums"], "connector": "blackhole"},
        ],
    }


def _write_input(directory: Path) -> None:
    directory.mkdir(parents=True)
    for file in range(_FILES):
        numbers = range(file * _ROWS, (file + 1) * _ROWS)
        lines = (json.dumps({"k": n * 7919 % _KEYS, "v": n}) + "\n" for n in numbers)
        (directory / f"{file:04d}.json").write_text("".join(lines))


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 3)
