"""From submit to the first committed batch, and from kill -9 of a runner to the next one.

    python -m bench.recovery 3       # rounds

Two servers, one without warm runners and one with: each round measures both, one after the
other, on a machine that is otherwise quiet. Reported are medians and the ratio.
"""

import os
import signal
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from bench.support import a_server, say, table
from tests.support.server import ServerProcess, eventually

_ROWS_PER_SECOND = 100


def main(rounds: int) -> None:
    took: dict[tuple[str, str], list[float]] = {}
    with a_server("--warm-runners", "0") as cold, a_server("--warm-runners", "1") as warm:
        for number in range(rounds):
            for name, server in (("cold", cold), ("warm", warm)):
                if name == "warm":
                    _until_warm(server)
                first, recovered = _measure(server, number)
                took.setdefault((name, "submit to first batch"), []).append(first)
                took.setdefault((name, "kill -9 to next batch"), []).append(recovered)
                say(f"round {number + 1}, {name}: first {first:.1f} s, recovered {recovered:.1f} s")
    rows = []
    for what in ("submit to first batch", "kill -9 to next batch"):
        cold_s, warm_s = (statistics.median(took[name, what]) for name in ("cold", "warm"))
        rows.append([what, f"{cold_s:.1f}", f"{warm_s:.1f}", f"{warm_s / cold_s:.2f}"])
    table(["seconds (median)", "cold", "warm", "ratio"], rows)


def _measure(server: ServerProcess, number: int) -> tuple[float, float]:
    began = time.time()
    job = server.submit(_document(f"out{number}"))
    first = _first_commit_after(server, job, began) - began
    if "--warm-runners" in server.options and server.options[-1] != "0":
        _until_warm(server)
    time.sleep(3)
    killed = time.time()
    os.kill(server.status(job)["runner"]["pid"], signal.SIGKILL)
    recovered = _first_commit_after(server, job, killed) - killed
    server.http.patch(f"/v1/jobs/{job}")
    server.until_state(job, "cancelled")
    return first, recovered


def _first_commit_after(server: ServerProcess, job: str, moment: float) -> float:
    """When the first batch was committed after that moment, by the clock of the file system."""
    attempts = server.directory / "storage" / "jobs" / job / "attempts"
    newest = 1 + max((int(one.name) for one in attempts.glob("*")), default=0)
    known = newest if attempts.exists() else 1

    def committed() -> float | None:
        times = [one.stat().st_mtime for one in _commits(attempts / str(known))]
        return min((one for one in times if one > moment), default=None)

    return eventually(committed, within=180, explain=lambda: str(server.status(job)))


def _commits(attempt: Path) -> list[Path]:
    return [one for one in attempt.glob("out/commits/*") if one.name.isdigit()]


def _until_warm(server: ServerProcess) -> None:
    ready = server.directory / "runners"

    def is_ready() -> bool:
        return any((one / "ready").exists() and _is_idle(one) for one in ready.glob("*"))

    eventually(is_ready, within=180)


def _is_idle(home: Path) -> bool:
    return "registered" not in (home / "runner.log").read_text()


def _document(path: str) -> dict[str, Any]:
    return {
        "name": "recovery",
        "parallelism": 2,
        "checkpointing": {"interval": "1s"},
        "restart": {"strategy": "fixed_delay", "attempts": 5, "delay": "0s"},
        "vertices": [
            {
                "id": "bids",
                "op": "source",
                "connector": "generator",
                "rows_per_second": _ROWS_PER_SECOND,
                "columns": {"auction": "id % 20", "price": "id % 1000", "ts": "ts"},
                "watermark": {"column": "ts", "delay": "1s"},
            },
            {
                "id": "revenue",
                "op": "window",
                "inputs": ["bids"],
                "key": ["auction"],
                "window": {"tumbling": "2s"},
                "aggregate": {"bids": "count(*)", "revenue": "sum(price)"},
            },
            {
                "id": "out",
                "op": "sink",
                "inputs": ["revenue"],
                "connector": "files",
                "format": "parquet",
                "path": path,
            },
        ],
    }


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 3)
