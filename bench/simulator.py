"""How many jobs one JobManager can manage: simulated runners speak the protocol, without Spark.

    python -m bench.simulator 1000 --seconds 120

A real server process (only the runners are simulated) on the embedded Postgres. Each job has a
source, a keyed vertex of 30 subtasks and a sink, and a checkpoint every 10 seconds; each runner
sends heartbeats, waits for directives and acks every barrier a moment later, on connections of
its own. Meanwhile clients read. Reported are the time of a checkpoint from its trigger to its
completion (from Postgres), missed checkpoints, the latency of reads, and CPU and memory.

With `--readers N` the server has reader processes. With `--follower` a second server runs on the
same Postgres and answers the reads.
"""

import argparse
import asyncio
import json
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import psutil
import psycopg

from bench.support import say, table
from bench.wire import Connection
from jobmanager.core.graph import graph_document
from jobmanager.core.plan.job_plan import awaited
from jobmanager.core.snapshots.layout import checkpoint_manifest
from jobmanager.protocol.messages import PROTOCOL_VERSION
from jobmanager.store.embedded import EmbeddedPostgres
from tests.support.server import ServerProcess

INTERVAL = 10
PARALLELISM = 30
_READS_PER_SECOND = 20
_SUBMIT_AT_ONCE = 8
_LATE = 1.5
"""A checkpoint later than so many intervals after the one before was missed."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("jobs", type=int, nargs="?", default=1000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--follower", action="store_true", help="readers ask a second server")
    parser.add_argument("--readers", type=int, default=0, help="reader processes of the server")
    parser.add_argument("--only-submit", action="store_true", help="end when all jobs run")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hgbench", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        with (directory / "server.log").open("w") as log:
            server = subprocess.Popen(
                [sys.executable, "-m", "bench.simulated_server", name, str(arguments.readers)],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        try:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            simulation = Simulation(url, directory, server.pid, arguments.jobs)
            with a_follower(directory) if arguments.follower else nullcontext(url) as asked:
                run = simulation.submit if arguments.only_submit else simulation.run
                asyncio.run(run(arguments.seconds, asked))
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(60)
            tail = (directory / "server.log").read_text().splitlines()
            warned = Counter(_told(json.loads(one)) for one in tail if '"warning"' in one)
            say(f"warnings in the server's log: {dict(warned)}")


@contextmanager
def a_follower(directory: Path) -> Iterator[str]:
    """The URL of a server that stands by."""
    database = EmbeddedPostgres.start(directory / "postgres").url
    storage = (directory / "storage").as_uri()
    server = ServerProcess(
        directory / "follower", "--database-url", database, "--storage", storage,
        "--warm-runners", "0",
    )  # fmt: skip
    try:
        yield server.start().url
    finally:
        server.clean_up()


class Simulation:
    def __init__(self, url: str, directory: Path, pid: int, jobs: int) -> None:
        self._address = _address(url)
        self._directory = directory
        self._server = psutil.Process(pid)
        self._jobs = jobs
        self._ids: list[str] = []
        self._played: dict[str, asyncio.Task[None]] = {}
        self._document = a_document()
        self._subtasks = subtasks_of(self._document)
        self._about: dict[str, dict[str, Any]] = {}
        """Which attempt a runner has."""
        self._acking: set[asyncio.Task[None]] = set()
        self.acked = 0
        self.problems: Counter[str] = Counter()
        self.reads: list[float] = []
        self.ack_times: list[float] = []
        self.beat_times: list[float] = []

    async def submit(self, seconds: float = 0, asked: str = "") -> None:
        """Returns when all jobs are submitted and their runners launched."""
        began, before = time.monotonic(), self._server.cpu_times()
        self._watching = asyncio.create_task(self._play_all())
        gate = asyncio.Semaphore(_SUBMIT_AT_ONCE)
        await asyncio.gather(*(self._submit(gate, n) for n in range(self._jobs)))
        submitted = time.monotonic() - began
        while len(self._played) < self._jobs:  # noqa: ASYNC110 (another process writes them down)
            await asyncio.sleep(0.2)
        took, after = time.monotonic() - began, self._server.cpu_times()
        cpu = after.user + after.system - before.user - before.system
        say(
            f"{self._jobs} jobs submitted in {submitted:.1f} s, submitted and launched in "
            f"{took:.1f} s; CPU of the server {1000 * cpu / self._jobs:.1f} ms a job"
        )

    async def run(self, seconds: float, asked: str) -> None:
        await self.submit()
        await asyncio.sleep(2 * INTERVAL)  # until all of them have had their first one
        before = self._measure()
        self.reads, self.ack_times, self.beat_times, self.problems = [], [], [], Counter()
        acked, since = self.acked, time.time()
        reading = asyncio.create_task(self._read(asked))
        await asyncio.sleep(seconds)
        reading.cancel()
        self._report(seconds, since, acked, before, self._measure())
        for task in (self._watching, *self._played.values()):
            task.cancel()

    async def _submit(self, gate: asyncio.Semaphore, number: int) -> None:
        async with gate:
            connection = Connection(self._address)
            document = {**self._document, "name": f"job {number}"}
            status, answer = await connection.call("POST", "/v1/jobs", document)
            assert status == 202, answer
            self._ids.append(answer["jobid"])
            connection.close()

    async def _play_all(self) -> None:
        """Plays each runner from the moment that it is launched."""
        path, at = self._directory / "launched.jsonl", 0
        while True:
            await asyncio.sleep(0.1)
            if path.exists():
                lines = path.read_text().splitlines()
                for line in lines[at:]:
                    one = json.loads(line)
                    task = asyncio.create_task(self._play(one["runner"], one["secret"]))
                    self._played[one["runner"]] = task
                at = len(lines)

    async def _play(self, runner: str, secret: str) -> None:
        talks = Connection(self._address, secret)
        hello = {
            "protocol": PROTOCOL_VERSION,
            "host": "simulated",
            "pid": 1,
            "spark_version": "4.3.0",
        }
        path = f"/v1/runners/{runner}"
        welcome = await self._until_answered(talks, f"{path}/register", hello)
        polls = asyncio.create_task(self._poll(path, secret, welcome["poll_wait_ms"], talks))
        about: dict[str, Any] = {}
        interval = welcome["heartbeat_interval_ms"] / 1000
        await asyncio.sleep(random.uniform(0, interval))
        batch = 0
        while True:
            batch += 1
            about = self._about.get(path, about)
            if about:
                region = {"region": "out", "batch": batch, "is_active": True, "unmoved_ms": 0}
                beat = {**about, "regions": [region]}
                began = time.monotonic()
                status, reply = await talks.call("POST", f"{path}/heartbeat", beat)
                self.beat_times.append(time.monotonic() - began)
                if status != 200:
                    self.problems[f"heartbeat {status}"] += 1
                else:
                    interval = reply.get("heartbeat_interval_ms", interval * 1000) / 1000
            await asyncio.sleep(interval)
            if polls.done():
                polls.result()
                talks.close()
                return

    async def _poll(self, path: str, secret: str, wait_ms: int, talks: Connection) -> None:
        after, waits = 0, Connection(self._address, secret)
        while True:
            query = f"{path}/directives?after={after}&wait_ms={wait_ms}"
            status, found = await waits.call("GET", query, None)
            if status != 200:
                self.problems[f"directives {status}"] += 1
                await asyncio.sleep(1)
                continue
            for directive in found["directives"]:
                after = directive["id"]
                about = {"job": directive["job"], "attempt": directive["attempt"]}
                if directive["body"]["kind"] == "run":
                    self._about[path] = about
                    talks.attempt_token = directive["body"]["token"]
                    report = {**about, "at": "2026-01-01T00:00:00Z"}
                    body = {"event": "running", "restored": []}
                    await self._until_answered(talks, f"{path}/attempt", {**report, "body": body})
                if directive["body"]["kind"] == "cancel":
                    report = {**about, "at": "2026-01-01T00:00:00Z"}
                    body = {"event": "cancelled", "detail": "told so"}
                    await self._until_answered(talks, f"{path}/attempt", {**report, "body": body})
                    self._about.pop(path, None)
                    waits.close()
                    return
                if directive["body"]["kind"] == "barrier":
                    acking = asyncio.create_task(self._ack(path, talks, about, directive["body"]))
                    self._acking.add(acking)
                    acking.add_done_callback(self._acking.discard)

    async def _ack(
        self, path: str, talks: Connection, about: dict[str, Any], barrier: dict[str, Any]
    ) -> None:
        await asyncio.sleep(random.uniform(0.05, 0.3))  # the batch it is in
        number = barrier["checkpoint"]
        said = {
            **about,
            "checkpoint": number,
            "manifest": checkpoint_manifest(number),
            "batches": {"out": number},
            "bytes": 1000,
            "new_bytes": 10,
            "acks": self._subtasks,
        }
        began = time.monotonic()
        reply = await self._until_answered(talks, f"{path}/acks", said)
        self.ack_times.append(time.monotonic() - began)
        self.acked += len(self._subtasks)
        if reply["outcome"] != "completed":
            self.problems[f"ack {reply['outcome']}"] += 1

    async def _until_answered(self, connection: Connection, path: str, body: Any) -> Any:
        while True:
            status, answer = await connection.call("POST", path, body)
            if status == 200:
                return answer
            self.problems[f"{path.rpartition('/')[2]} {status}"] += 1
            await asyncio.sleep(random.uniform(0.2, 1))

    async def _read(self, asked: str) -> None:
        connection = Connection(_address(asked))
        while True:
            job = random.choice(self._ids)
            paths = [f"/v1/jobs/{job}/status", f"/jobs/{job}/checkpoints", f"/jobs/{job}"]
            began = time.monotonic()
            status, _ = await connection.call("GET", random.choice(paths), None)
            self.reads.append(time.monotonic() - began)
            if status != 200:
                self.problems[f"read {status}"] += 1
            await asyncio.sleep(max(0, 1 / _READS_PER_SECOND - (time.monotonic() - began)))

    def _measure(self) -> dict[str, float]:
        postgres = self._postgres()
        with psycopg.connect(postgres) as connection:
            size = connection.execute("SELECT pg_database_size(current_database())").fetchone()
        assert size is not None
        times = self._server.cpu_times()
        return {
            "cpu": times.user + times.system,
            "readers": self._cpu_of_readers(),
            "memory": self._server.memory_info().rss / 1e6,
            "database": size[0] / 1e6,
        }

    def _cpu_of_readers(self) -> float:
        found = [one for one in self._server.children() if "reader_main" in " ".join(one.cmdline())]
        return sum(sum(one.cpu_times()[:2]) for one in found)

    def _postgres(self) -> str:
        return EmbeddedPostgres.start(self._directory / "postgres").url

    def _report(
        self,
        seconds: float,
        since: float,
        acked: int,
        before: dict[str, float],
        after: dict[str, float],
    ) -> None:
        with psycopg.connect(self._postgres()) as connection:
            took = [
                float(one)
                for (one,) in connection.execute(
                    """SELECT extract(epoch FROM ended_at - triggered_at) FROM checkpoints
                       WHERE status = 'completed' AND triggered_at > to_timestamp(%s)""",
                    (since,),
                )
            ]
            gaps = [
                float(one)
                for (one,) in connection.execute(
                    """SELECT extract(epoch FROM triggered_at - before) FROM (
                           SELECT triggered_at, lag(triggered_at) OVER (
                               PARTITION BY job_id ORDER BY number) AS before FROM checkpoints
                       ) AS each WHERE triggered_at > to_timestamp(%s) AND before IS NOT NULL""",
                    (since,),
                )
            ]
            aborted = connection.execute(
                "SELECT count(*) FROM checkpoints WHERE status = 'aborted'"
            ).fetchone()
            ill = connection.execute(
                "SELECT count(*) FROM jobs WHERE status <> 'running' OR health <> 'healthy'"
            ).fetchone()
            attempts = connection.execute("SELECT count(*) FROM attempts").fetchone()
        assert aborted is not None
        assert ill is not None
        assert attempts is not None
        missed = sum(gap > _LATE * INTERVAL for gap in gaps)
        figures: list[Sequence[object]] = [
            ["acks of subtasks, a second", f"{(self.acked - acked) / seconds:.0f}"],
            ["checkpoints completed", len(took)],
            ["trigger to completion, p50 / p99 / most, s", _quantiles(took)],
            ["from one trigger to the next, p50 / p99 / most, s", _quantiles(gaps)],
            ["checkpoints missed, aborted", f"{missed}, {aborted[0]}"],
            ["jobs not running or not healthy, restarts", f"{ill[0]}, {attempts[0] - self._jobs}"],
            ["POST acks, p50 / p99 / most, s", _quantiles(self.ack_times)],
            ["POST heartbeat, p50 / p99 / most, s", _quantiles(self.beat_times)],
            ["heartbeats a second", f"{len(self.beat_times) / seconds:.0f}"],
            ["GET, p50 / p99 / most, s", _quantiles(self.reads)],
            ["the server's share of a core", f"{(after['cpu'] - before['cpu']) / seconds:.2f}"],
            ["the readers' share of a core",
             f"{(after['readers'] - before['readers']) / seconds:.2f}"],
            ["memory of the server, MB", f"{before['memory']:.0f} to {after['memory']:.0f}"],
            ["the database grew by, MB a minute",
             f"{(after['database'] - before['database']) / seconds * 60:.1f}"],
            ["other answers than 200", dict(self.problems)],
        ]  # fmt: skip
        table([f"{self._jobs} jobs, {seconds:g} s", ""], figures, f"jobs-{self._jobs}")


def _told(line: dict[str, Any]) -> str:
    """Say which loop failed and why: the log is deleted at the end."""
    return " ".join(str(line[name]) for name in ("event", "loop", "error") if name in line)


def _address(url: str) -> list[str]:
    return url.removeprefix("http://").rstrip("/").split(":")


def a_document() -> dict[str, Any]:
    return {
        "name": "played",
        "parallelism": PARALLELISM,
        "checkpointing": {"interval": f"{INTERVAL}s", "timeout": "60s"},
        "vertices": [
            {
                "id": "rows",
                "op": "source",
                "connector": "generator",
                "rows_per_second": 1,
                "columns": {"k": "id"},
            },
            {
                "id": "counts",
                "op": "aggregate",
                "inputs": ["rows"],
                "key": ["k"],
                "aggregate": {"n": "count(*)"},
            },
            {"id": "out", "op": "sink", "inputs": ["counts"], "connector": "blackhole",
             "parallelism": 1},
        ],
    }  # fmt: skip


def subtasks_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The acks of all subtasks of a job with this graph."""
    return [
        {
            "region": ref.region,
            "vertex": ref.vertex,
            "subtask": ref.subtask,
            "kind": str(kind),
            "bytes": 1000,
            "key_groups": list(range(ref.subtask, 720, PARALLELISM)) if kind == "state" else [],
        }
        for ref, kind in awaited(graph_document.parse(document), PARALLELISM).items()
    ]


def _quantiles(values: Sequence[float]) -> str:
    if len(values) < 2:
        return "-"
    cuts = statistics.quantiles(values, n=100)
    return f"{cuts[49]:.3f} / {cuts[98]:.3f} / {max(values):.3f}"


if __name__ == "__main__":
    main()
