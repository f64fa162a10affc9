"""Many small streaming jobs on one machine: in one shared process, and some with a process each.

    python -m bench.many_small_jobs 30 2 60      # shared jobs, own jobs, seconds of measuring

Each job counts ten rows a second by key in windows and writes them to files, in batches of five
seconds, with a checkpoint every ten seconds. First so many jobs share a process
(`execution.runner: shared`), on a server of their own; then a few have a process each. Reported are
the memory of all runners' processes (PSS: shared pages count once), the time until every job runs
and has committed a batch, the batches of each job while it was measured, and processor time.
"""

import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psutil

from bench.support import a_server, say, table
from tests.support.server import ServerProcess, eventually

_WITHIN = 1800
_MEBIBYTE = 2**20
_HEAP = "2g"


@dataclass(frozen=True)
class Measured:
    jobs: int
    running: float
    """Seconds from the first submission until all jobs run."""
    committed: float
    """And until each has committed a batch."""
    pss: float
    """MiB, of all processes of all runners, after the measuring."""
    resident: float
    processes: int
    server: float
    """MiB, of the server and its Postgres."""
    batches: Sequence[int]
    """Of each job, while it was measured."""
    attempts: int
    cores: float
    """Processor time of the runners' processes, in cores."""


def main(shared: int, own: int, seconds: int) -> None:
    with a_server(
        "--warm-runners", "0", "--shared-jobs", str(shared), "--shared-memory", _HEAP
    ) as server:
        together = _measure(server, "shared", shared, seconds)
    with a_server("--warm-runners", "0") as server:
        apart = _measure(server, "own", own, seconds)
    rows = [
        ["jobs", str(together.jobs), str(apart.jobs)],
        ["runners' memory, PSS MiB", f"{together.pss:.0f}", f"{apart.pss:.0f}"],
        ["runners' memory, RSS MiB", f"{together.resident:.0f}", f"{apart.resident:.0f}"],
        ["PSS of a job, MiB", *(f"{one.pss / one.jobs:.0f}" for one in (together, apart))],
        ["processes", str(together.processes), str(apart.processes)],
        ["server and Postgres, PSS MiB", f"{together.server:.0f}", f"{apart.server:.0f}"],
        ["all run after, s", f"{together.running:.1f}", f"{apart.running:.1f}"],
        ["all have committed after, s", f"{together.committed:.1f}", f"{apart.committed:.1f}"],
        [f"batches of a job in {seconds} s", *(_spread(one) for one in (together, apart))],
        ["attempts that failed", str(together.attempts - together.jobs), str(apart.attempts - own)],
        ["processor time, cores", f"{together.cores:.2f}", f"{apart.cores:.2f}"],
    ]
    table(["", "one shared process", "a process each"], rows, "many_small_jobs")


def _spread(measured: Measured) -> str:
    found = sorted(measured.batches)
    return f"{statistics.median(found):.0f} ({found[0]}–{found[-1]})"


def _measure(server: ServerProcess, runner: str, count: int, seconds: int) -> Measured:
    began = time.monotonic()
    jobs = [server.submit(_document(f"{runner}{number}", runner)) for number in range(count)]
    eventually(lambda: all(_state(server, job) == "running" for job in jobs), within=_WITHIN)
    running = time.monotonic() - began
    say(f"{count} jobs, {runner}: all run after {running:.1f} s")
    eventually(lambda: all(_batches(server, job) for job in jobs), within=_WITHIN)
    committed = time.monotonic() - began
    say(f"{count} jobs, {runner}: all have committed a batch after {committed:.1f} s")
    before = {job: _batches(server, job) for job in jobs}
    spent, since = _processor_time(server), time.monotonic()
    time.sleep(seconds)
    cores = (_processor_time(server) - spent) / (time.monotonic() - since)
    batches = [_batches(server, job) - before[job] for job in jobs]
    pids = server.runner_processes()
    shares, resident = _memory(pids)
    measured = Measured(
        jobs=count,
        running=running,
        committed=committed,
        pss=shares,
        resident=resident,
        processes=len(pids),
        server=_memory(_of_server(server))[0],
        batches=batches,
        attempts=sum(server.status(job)["attempt"] for job in jobs),
        cores=cores,
    )
    say(f"{count} jobs, {runner}: {measured}")
    return measured


def _state(server: ServerProcess, job: str) -> str:
    return str(server.status(job)["state"])


def _batches(server: ServerProcess, job: str) -> int:
    return sum(one["batches"] for one in server.status(job)["region_states"])


def _of_server(server: ServerProcess) -> list[int]:
    own = psutil.Process(server.pid)
    runners = set(server.runner_processes())
    found = [own, *own.children(recursive=True)]
    postgres = str(server.directory / "postgres")
    for one in psutil.process_iter(["cmdline"]):
        if postgres in " ".join(one.info["cmdline"] or []):
            found += [one, *one.children(recursive=True)]
    return sorted({one.pid for one in found} - runners)


def _memory(pids: Iterable[int]) -> tuple[float, float]:
    """PSS and RSS of these processes, in MiB."""
    shares = resident = 0
    for pid in pids:
        with suppress(psutil.NoSuchProcess):  # Hadoop starts short programs
            found = psutil.Process(pid).memory_full_info()
            shares, resident = shares + found.pss, resident + found.rss
    return shares / _MEBIBYTE, resident / _MEBIBYTE


def _processor_time(server: ServerProcess) -> float:
    spent = 0.0
    for pid in server.runner_processes():
        with suppress(psutil.NoSuchProcess):
            times = psutil.Process(pid).cpu_times()
            spent += times.user + times.system
    return spent


def _document(name: str, runner: str) -> dict[str, Any]:
    return {
        "name": name,
        "parallelism": 1,
        "execution": {"runner": runner, "batch_interval": "5s"},
        "vertices": [
            {
                "id": "rows",
                "op": "source",
                "connector": "generator",
                "rows_per_second": 10,
                "columns": {"k": "id % 10", "v": "id", "ts": "ts"},
                "watermark": {"column": "ts", "delay": "1s"},
            },
            {
                "id": "counts",
                "op": "window",
                "inputs": ["rows"],
                "key": ["k"],
                "window": {"tumbling": "5s"},
                "aggregate": {"rows": "count(*)", "total": "sum(v)"},
            },
            {
                "id": "out",
                "op": "sink",
                "inputs": ["counts"],
                "connector": "files",
                "format": "json",
                "path": name,
            },
        ],
    }


if __name__ == "__main__":
    given = [int(one) for one in sys.argv[1:]]
    main(*(given + [30, 2, 60][len(given) :]))
