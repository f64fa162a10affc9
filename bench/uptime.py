"""A week of uptime in minutes: does anything grow?

    python -m bench.uptime --minutes 6

A real server on the embedded Postgres; only the runners are simulated (`bench.simulator`). Ten jobs
take a checkpoint every second, and every second one of them is cancelled and another is submitted.
What is kept for days by default is kept for seconds here, and pruned every two seconds: so the run
reaches the state that a server reaches after weeks, in which as much is deleted as is written. The
table compares the second quarter of the run with the last: a ratio near 1 says that a figure does
not grow. In the first quarter all of them grow, because nothing is old yet.

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
from collections.abc import Sequence
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

JOBS = 10
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
_WRITTEN = """SELECT n_tup_ins FROM pg_stat_user_tables WHERE relname = 'checkpoints'"""
_TABLES = ("jobs", "attempts", "runners", "checkpoints", "checkpoint_subtasks", "history",
           "samples", "key_group_assignments", "outbox")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=6)
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
            uptime = Uptime(url, directory, process.pid, JOBS)
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
                "memory of the server, MB": self._server.memory_info().rss / 1e6,
                "threads of the server": self._server.num_threads(),
                "open files of the server": self._server.num_fds(),
            }  # fmt: skip

    def _compare(self) -> None:
        quarter = len(self._looks) // 4
        first, last = self._looks[quarter : 2 * quarter], self._looks[-quarter:]
        rows: list[Sequence[object]] = []
        for name in self._looks[0]:
            before = statistics.mean(one[name] for one in first)
            after = statistics.mean(one[name] for one in last)
            ratio = f"{after / before:.2f}" if before else "-"
            rows.append([name, f"{before:.1f}", f"{after:.1f}", ratio])
        table(["mean of a quarter of the run", "second", "last", "ratio"], rows)
        say(f"other answers than 200: {dict(self.problems)}")


def _numbers(connection: psycopg.Connection[Any], query: str) -> list[float]:
    return [float(one) for (one,) in connection.execute(query.encode())]


def _entries(directory: Path) -> int:
    return sum(1 for _ in directory.iterdir()) if directory.exists() else 0


if __name__ == "__main__":
    main()
