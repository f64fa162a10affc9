"""A week of uptime in minutes: does anything grow?

    python -m bench.uptime --minutes 6 --jobs 10

A real server on the embedded Postgres; only the runners are simulated (`bench.simulator`). Each job
takes a checkpoint every second, and every second one of them is cancelled and another is submitted.
What is kept for days by default is kept for seconds here, and pruned every two seconds: so the run
reaches the state that a server reaches after weeks, in which as much is deleted as is written. The
table compares the last three quarters of the run: a ratio near 1 says that a figure does not grow.
In the first quarter all of them grow, because nothing is old yet. On a machine that has other work,
ask for fewer jobs: a server without CPU prunes late.

Not part of it: Spark's own processes. `tests/e2e/test_server_life.py` looks at their temporary
files, `tests/unit/files/test_log_rotation.py` at logs.
"""

import argparse
import asyncio
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg

from bench import simulated_server
from bench.simulator import Simulation, a_document
from bench.support import say, table
from bench.wire import Connection
from jobmanager import leader_tasks, server
from jobmanager.launchers import local
from jobmanager.loops import sampler

_LOOK_EVERY = 2.0
_SETTINGS = {
    "HEADGATE_KEEP_HISTORY": "PT20S",
    "HEADGATE_KEEP_ENDED_JOBS": "PT20S",
    "HEADGATE_KEEP_ENDED_CHECKPOINTS": "PT20S",
    "HEADGATE_KEEP_CHECKPOINT_ROWS": "20",
    "HEADGATE_KEEP_ATTEMPTS": "5",
    # On a machine that has other work, the measurement should not become one of failovers.
    "HEADGATE_LEASE": "PT60S",
    "HEADGATE_LEASE_RENEWAL": "PT5S",
    "HEADGATE_HEARTBEAT_TIMEOUT": "PT120S",
}
_NOT_COUNTED = ("postgres", "launched.jsonl", "server.log")
"""In the data directory. The last two are files of this benchmark."""
_WRITTEN = """SELECT n_tup_ins FROM pg_stat_user_tables WHERE relname = 'checkpoints'"""
_TABLES = ("jobs", "attempts", "runners", "checkpoints", "checkpoint_subtasks", "history",
           "samples", "key_group_assignments", "outbox")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=6)
    parser.add_argument("--jobs", type=int, default=10, help="jobs that run at the same time")
    parser.add_argument("--serve", type=Path, help="run the server in this directory")
    arguments = parser.parse_args()
    if arguments.serve is not None:
        _serve(arguments.serve)
        return
    with tempfile.TemporaryDirectory(prefix="hgbench", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        with (directory / "server.log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "bench.uptime", "--serve", name],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **_SETTINGS},
            )
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            uptime = Uptime(url, directory, process.pid, arguments.jobs)
            asyncio.run(uptime.live(arguments.minutes * 60))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(300)


def _serve(directory: Path) -> None:
    """The simulated server, with its fixed times shortened like its settings."""
    leader_tasks._PRUNE_EVERY = 2.0
    server.EVERY_SECONDS = 2.0  # type: ignore[attr-defined]
    local._UNUSED_SECONDS = 20
    sampler._KEPT = ((0, 1, timedelta(seconds=15)), (1, 10, timedelta(seconds=30)))
    sampler._COARSEST_S = 10
    sampler._KEEP = timedelta(seconds=60)
    asyncio.run(simulated_server.main(directory.resolve()))


class Uptime(Simulation):
    """Simulated runners whose jobs come and go."""

    def __init__(self, url: str, directory: Path, pid: int, jobs: int) -> None:
        super().__init__(url, directory, pid, jobs)
        self._document = a_document()
        self._document["checkpointing"] = {"interval": "1s", "timeout": "60s"}
        self._looks: list[dict[str, float]] = []
        self._cancelled = 0

    async def live(self, seconds: float) -> None:
        playing = asyncio.create_task(self._play_all())
        gate = asyncio.Semaphore(4)
        for number in range(self._jobs):
            await self._begin(gate, number)
        changing = asyncio.create_task(self._come_and_go(gate))
        until = time.monotonic() + seconds
        with psycopg.connect(self._postgres(), autocommit=True) as connection:
            while time.monotonic() < until:
                await asyncio.sleep(_LOOK_EVERY)
                self._looks.append(await asyncio.to_thread(self._look, connection))
            [written] = _numbers(connection, _WRITTEN)
        for task in (changing, playing, *self._played.values()):
            task.cancel()
        days = written / 8640
        say(f"{self._cancelled} jobs ended, {written:.0f} checkpoints were taken")
        say(f"(as many as one job with a checkpoint every 10 s takes in {days:.1f} days)")
        self._compare()

    async def _begin(self, gate: asyncio.Semaphore, number: int) -> None:
        while True:
            try:
                await self._submit(gate, number)
                break
            except AssertionError as error:  # a busy machine: the server asks to try again
                self.problems[f"submit {error.args[0]['status']}"] += 1
                await asyncio.sleep(1)
        for place in ("storage/jobs", "runners"):
            (self._directory / place).mkdir(parents=True, exist_ok=True)
        files = self._directory / "storage" / "jobs" / self._ids[-1] / "attempts" / "1"
        files.mkdir(parents=True, exist_ok=True)
        (files / "state").write_bytes(b"x" * 10_000)

    async def _come_and_go(self, gate: asyncio.Semaphore) -> None:
        connection = Connection(self._address)
        while True:
            await asyncio.sleep(1)
            status, _ = await connection.call("PATCH", f"/v1/jobs/{self._ids[0]}", None)
            if status == 202:
                del self._ids[0]
                self._cancelled += 1
                await self._begin(gate, self._cancelled + self._jobs)
            else:
                self.problems[f"cancel {status}"] += 1

    def _look(self, connection: psycopg.Connection[Any]) -> dict[str, float]:
        counts = " UNION ALL ".join(f"SELECT count(*) FROM {one}" for one in _TABLES)
        size = _numbers(connection, "SELECT pg_database_size(current_database()) / 1e6")
        with self._server.oneshot():
            return {
                **{f"rows of {name}": count for name, count in
                   zip(_TABLES, _numbers(connection, counts), strict=True)},
                "database, MB": size[0],
                "directories of jobs": _entries(self._directory / "storage" / "jobs"),
                "directories of runners": _entries(self._directory / "runners"),
                "data directory without Postgres, MB": _megabytes(self._directory, _NOT_COUNTED),
                "directory of Postgres, MB": _megabytes(self._directory / "postgres", ("pg_wal",)),
                "Postgres' log of changes (WAL), MB": _megabytes(
                    self._directory / "postgres" / "pg_wal", ()),
                "memory of the server, MB": self._server.memory_info().rss / 1e6,
                "threads of the server": self._server.num_threads(),
                "open files of the server": self._server.num_fds(),
            }  # fmt: skip

    def _compare(self) -> None:
        quarter = len(self._looks) // 4
        quarters = [self._looks[n * quarter : (n + 1) * quarter] for n in (1, 2, 3)]
        rows: list[Sequence[object]] = []
        for name in self._looks[0]:
            means = [statistics.mean(one[name] for one in looks) for looks in quarters]
            ratio = f"{means[-1] / means[0]:.2f}" if means[0] else "-"
            rows.append([name, *(f"{one:.1f}" for one in means), ratio])
        table(["mean of a quarter of the run", "second", "third", "last", "last / second"], rows)
        say(f"other answers than 200: {dict(self.problems)}")
        say(f"load of the machine, with {os.cpu_count()} cores: {os.getloadavg()[1]:.1f}")


def _numbers(connection: psycopg.Connection[Any], query: str) -> list[float]:
    return [float(one) for (one,) in connection.execute(query.encode())]


def _entries(directory: Path) -> int:
    return sum(1 for _ in directory.iterdir()) if directory.exists() else 0


def _megabytes(directory: Path, without: Collection[str]) -> float:
    """What the files below `directory` take, but for some entries of the directory itself."""
    size = 0
    for place, directories, files in os.walk(directory):
        if Path(place) == directory:
            directories[:] = [one for one in directories if one not in without]
            files = [one for one in files if one not in without]
        for name in files:
            with suppress(FileNotFoundError):  # deleted meanwhile
                size += (Path(place) / name).lstat().st_blocks * 512
    return size / 1e6


if __name__ == "__main__":
    main()
