"""Times from submission to the first committed batch, and from kill -9 of a runner to the next.

    python -m bench.recovery 3       # rounds

Two servers, one without warm runners and one with: each round measures both, one after the
other, on a machine that is otherwise quiet. Reported are medians and the ratio.

The first batch is measured twice: of rows that wait in a file, and of the generator.
"""

import json
import os
import signal
import statistics
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.support import a_server, say, table, until_primed
from jobmanager.core.snapshots.layout import ATTEMPTS, named_job_directory
from tests.support.server import ServerProcess, eventually

_ROWS_PER_SECOND = 100
_CALM = 3.0
"""Seconds after a start or an end, until nothing else runs."""
_WAITING = "submit to first batch, rows waiting"
_GENERATED = "submit to first batch, generator"
_RECOVERED = "kill -9 to next batch"


def main(rounds: int) -> None:
    took: dict[tuple[str, str], list[float]] = {}
    with a_server("--warm-runners", "0") as cold, a_server("--warm-runners", "1") as warm:
        for number in range(rounds):
            for name, server in (("cold", cold), ("warm", warm)):
                measured = _measure(server, number)
                for what, seconds in measured.items():
                    took.setdefault((name, what), []).append(seconds)
                told = ", ".join(f"{what}: {seconds:.1f} s" for what, seconds in measured.items())
                say(f"round {number + 1}, {name}: {told}")
    rows = []
    for what in (_WAITING, _GENERATED, _RECOVERED):
        cold_s, warm_s = (statistics.median(took[name, what]) for name in ("cold", "warm"))
        rows.append([what, f"{cold_s:.1f}", f"{warm_s:.1f}", f"{warm_s / cold_s:.2f}"])
    table(["seconds (median)", "cold", "warm", "ratio"], rows, "recovery")


def _measure(server: ServerProcess, number: int) -> dict[str, float]:
    took = {}
    waiting, took[_WAITING] = _first_batch(server, _document(f"read{number}", _waiting(server)))
    _cancel(server, waiting)
    job, took[_GENERATED] = _first_batch(server, _document(f"out{number}", _GENERATOR))
    _until_warm(server)
    time.sleep(_CALM)
    killed = time.time()
    os.kill(server.status(job)["runner"]["pid"], signal.SIGKILL)
    took[_RECOVERED] = _first_commit_after(server, job, killed) - killed
    _cancel(server, job)
    return took


def _first_batch(server: ServerProcess, document: dict[str, Any]) -> tuple[str, float]:
    _until_warm(server)
    time.sleep(_CALM)
    began = time.time()
    job = server.submit(document)
    return job, _first_commit_after(server, job, began) - began


def _cancel(server: ServerProcess, job: str) -> None:
    server.http.patch(f"/v1/jobs/{job}")
    server.until_state(job, "cancelled")


def _first_commit_after(server: ServerProcess, job: str, moment: float) -> float:
    """When a next attempt committed its first batch, by the clock of the file system.

    What it took over from the one before may be younger than the moment, and does not count.
    """
    attempts = server.directory / "storage" / named_job_directory(job) / ATTEMPTS
    next_one = 1 + max((int(one.name) for one in attempts.glob("*")), default=0)

    def committed() -> float | None:
        before = {one.name for one in _commits(attempts / str(next_one - 1))}
        own = (one for one in _commits(attempts / str(next_one)) if one.name not in before)
        times = (one.stat().st_mtime for one in own)
        return min((one for one in times if one > moment), default=None)

    return eventually(committed, within=180, explain=lambda: str(server.status(job)))


def _commits(attempt: Path) -> list[Path]:
    return [one for one in attempt.glob("out/commits/*") if one.name.isdigit()]


def _until_warm(server: ServerProcess) -> None:
    """Returns when a warm runner waits for work, at once where there are to be none."""
    if server.options[-1] != "0":
        until_primed(server)


def _waiting(server: ServerProcess) -> dict[str, Any]:
    """A source whose rows are there before the job is."""
    rows = server.directory / "data" / "bids"
    rows.mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC).isoformat()
    lines = [json.dumps({"auction": n % 20, "price": n, "ts": now}) for n in range(1_000)]
    (rows / "1.json").write_text("\n".join(lines))
    return {
        "connector": "files",
        "format": "json",
        "path": "bids",
        "schema": "auction LONG, price LONG, ts TIMESTAMP",
    }


_GENERATOR = {
    "connector": "generator",
    "rows_per_second": _ROWS_PER_SECOND,
    "columns": {"auction": "id % 20", "price": "id % 1000", "ts": "ts"},
}


def _document(path: str, source: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": "recovery",
        "parallelism": 2,
        "checkpointing": {"interval": "1s"},
        "restart": {"strategy": "fixed_delay", "attempts": 5, "delay": "0s"},
        "vertices": [
            {
                "id": "bids",
                "op": "source",
                **source,
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
