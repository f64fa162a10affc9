"""Small batch jobs in a row, submit to FINISHED, with and without reuse of runners' processes.

    python -m bench.small_jobs 10 2       # jobs in a row, rounds

Two servers with one warm runner each, one with `--runner-reuse 0`. Each round measures both, one
after the other: so many small jobs in a row, each submitted when the one before has finished; then
the same larger job twice. Reported are the first job, and median and maximum of the others.
"""

import json
import statistics
import sys
import time
from typing import Any

from bench.support import a_server, say, table, until_primed
from tests.support.server import ServerProcess

_ROWS = 1_000
_LARGER_ROWS = 1_000_000
_CALM = 5.0
"""Seconds after priming, until nothing else runs."""


def main(jobs: int, rounds: int) -> None:
    took: dict[str, dict[str, list[float]]] = {}
    with (
        a_server("--warm-runners", "1", "--runner-reuse", "0") as once,
        a_server("--warm-runners", "1", "--runner-reuse", "1000") as again,
    ):
        for number in range(rounds):
            for name, server in (("one job each", once), ("reused", again)):
                for what, seconds in _measure(server, number, jobs).items():
                    took.setdefault(what, {}).setdefault(name, []).extend(seconds)
                    shown = ", ".join(f"{one:.2f}" for one in seconds)
                    say(f"round {number + 1}, {name}, {what}: {shown}")
    rows = [
        [what, *(_shown(by[name]) for name in ("one job each", "reused"))]
        for what, by in took.items()
    ]
    table(["seconds, median (most)", "a process for each job", "reused"], rows, "small_jobs")


def _shown(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.2f} ({max(seconds):.2f})"


def _measure(server: ServerProcess, number: int, jobs: int) -> dict[str, list[float]]:
    _write(server, "small", _ROWS)
    _write(server, "larger", _LARGER_ROWS)
    until_primed(server)
    time.sleep(_CALM)
    small = [_run(server, "small", f"small{number}-{one}") for one in range(jobs)]
    until_primed(server)
    time.sleep(_CALM)
    larger = [_run(server, "larger", f"larger{number}-{one}") for one in range(2)]
    return {
        "small job, the first": small[:1],
        "small job, the others": small[1:],
        "larger job, the first": larger[:1],
        "larger job, the second": larger[1:],
    }


def _run(server: ServerProcess, path: str, name: str) -> float:
    began = time.monotonic()
    job = server.submit(_document(path, name))
    server.until_state(job, "finished", within=300)
    return time.monotonic() - began


def _write(server: ServerProcess, path: str, rows: int) -> None:
    directory = server.directory / "data" / path
    if directory.exists():
        return
    directory.mkdir(parents=True)
    with (directory / "1.json").open("w") as file:
        file.writelines(json.dumps({"auction": n % 100, "price": n}) + "\n" for n in range(rows))


def _document(path: str, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "mode": "batch",
        "parallelism": 2,
        "vertices": [
            {
                "id": "bids",
                "op": "source",
                "connector": "files",
                "format": "json",
                "path": path,
                "schema": "auction LONG, price LONG",
            },
            {
                "id": "revenue",
                "op": "aggregate",
                "inputs": ["bids"],
                "key": ["auction"],
                "aggregate": {"bids": "count(*)", "revenue": "sum(price)"},
            },
            {
                "id": "out",
                "op": "sink",
                "inputs": ["revenue"],
                "connector": "files",
                "format": "parquet",
                "path": name,
            },
        ],
    }


if __name__ == "__main__":
    given = [int(one) for one in sys.argv[1:]]
    main(*(given + [10, 2][len(given) :]))
