"""A small world of real processes to do harm to: Postgres, two servers, relays, a disk, a job.

Whatever servers and runners write is on one disk (`disk.py`); Postgres has another. All that a
server hears, of runners, of the other server and of Postgres, comes through a relay.

Each server is on a machine of its own by name (`--node`), so that one that leads can reach the
runners it has started itself and no others.
"""

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from jobmanager.store.embedded import EmbeddedPostgres
from tests.chaos import server_clock
from tests.chaos.disk import Disk, a_disk
from tests.chaos.postgres_relay import PostgresRelay
from tests.chaos.relay import Relay, Said
from tests.chaos.schedule import Limits
from tests.e2e.test_exactly_once import a_bounded_job
from tests.support.oracle import generator_started_at
from tests.support.server import ServerProcess, eventually, processes_of

_SLOWER = float(os.environ.get("HEADGATE_CHAOS_SLOWER", "1"))
LIMITS = Limits(heartbeat_timeout=9.0 * _SLOWER, lease=3.0 * _SLOWER)
_ENVIRONMENT = {
    "HEADGATE_HEARTBEAT_TIMEOUT": f"PT{LIMITS.heartbeat_timeout:g}S",
    "HEADGATE_LEASE": f"PT{LIMITS.lease:g}S",
    "HEADGATE_LEASE_RENEWAL": f"PT{LIMITS.lease / 3:g}S",
    # many JVMs that live for a minute: less is spent on making them fast
    "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
_PATIENCE = 300.0 * _SLOWER
"""Seconds for whatever comes by itself, on a machine that has much else to do."""


class SteppedServer(ServerProcess):
    """A server whose clock can be stepped. Its log is not on the disk that is done harm to."""

    module = "tests.chaos.server_clock"

    @property
    def log(self) -> Path:
        return self.directory.parents[1] / f"{self.directory.name}.log"


@dataclass
class World:
    directory: Path
    postgres: EmbeddedPostgres
    servers: list[ServerProcess]
    relays: list[Relay]
    database_relays: list[PostgresRelay]
    """In the order of the servers, as the relays."""
    said: Said
    disk: Disk
    warm_runners: int = 0
    job: str = ""
    began_ms: int = 0
    runners: set[str] = field(default_factory=set)
    """All that were ever seen."""

    @property
    def storage(self) -> Path:
        return self.disk.path / "storage"

    @property
    def output(self) -> Path:
        return self.storage / "data" / "out"

    @property
    def postgres_directory(self) -> Path:
        return self.directory / "pg"

    @property
    def clock_step_file(self) -> Path:
        return self.directory / "clock-step"

    def ask(self, method: str, path: str, within: float = _PATIENCE, **more: Any) -> httpx.Response:
        """The answer of whoever has one that is not "come back later"."""
        deadline = time.monotonic() + within
        while True:
            for server in self.servers:
                with contextlib.suppress(httpx.HTTPError, RuntimeError):
                    answer = server.http.request(method, path, timeout=15, **more)
                    if answer.status_code < 500:
                        return answer
            if time.monotonic() > deadline:
                raise AssertionError(f"nobody answers {method} {path} within {within} s")
            time.sleep(0.2)

    def get(self, path: str) -> Any:
        answer = self.ask("GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.get(f"/v1/jobs/{self.job}/status")
        if found["runner"]:
            self.runners.add(found["runner"]["id"])
        return found

    def leader(self) -> ServerProcess | None:
        for server in self.servers:
            with contextlib.suppress(httpx.HTTPError, RuntimeError):
                ready = server.http.get("/readyz", timeout=2)
                if ready.status_code == 200 and ready.json()["leader"]:
                    return server
        return None

    def submit(self, *, shows_at_checkpoint: bool) -> None:
        document = a_job("checkpoint" if shows_at_checkpoint else "batch")
        answer = self.ask("POST", "/v1/jobs", json=document)
        assert answer.status_code == 202, answer.text
        self.job = str(answer.json()["jobid"])
        self.recover()
        first = self.storage / "jobs" / self.job / "attempts" / "1" / "out"
        self.began_ms = generator_started_at(first)

    def recover(self) -> None:
        """Returns when the job runs and has completed a checkpoint since this was asked."""
        since = datetime.now(UTC)

        def recovered() -> bool:
            status = self.status()
            ended = status["state"] in ("failed", "finished", "cancelled")
            assert not ended, f"the job has ended: {status['state']}: {status['reason']}"
            last = status["last_checkpoint"]
            if status["state"] != "running" or last is None:
                return False
            found = self.get(f"/v1/jobs/{self.job}/checkpoints/{last['number']}")
            triggered = datetime.fromisoformat(found["triggered_at"])
            return bool(found["attempt"] == status["attempt"] and triggered >= since)

        eventually(recovered, within=_PATIENCE, explain=lambda: str(self.status()))

    def processes(self) -> list[int]:
        """All processes of all runners of this world."""
        homes = [one for s in self.servers for one in (s.directory / "runners").glob("*")]
        return [pid for home in homes for pid in processes_of(home.name)]


def a_job(visibility: str) -> dict[str, Any]:
    document = a_bounded_job("out")
    del document["vertices"][0]["rows"]
    document["vertices"][-1]["visibility"] = visibility
    return {
        **document,
        "name": "chaos",
        "max_parallelism": 12,
        "checkpointing": {"interval": "1s", "timeout": "60s", "tolerable_failures": 10},
        "restart": {
            "strategy": "exponential_delay",
            "initial_delay": "100ms",
            "max_delay": "2s",
            "reset_after": "5s",
        },
    }


@contextmanager
def a_world(directory: Path, warm_runners: int) -> Iterator[World]:
    """Nothing of it is left afterwards, whatever was done to it."""
    with ExitStack() as stack:
        disk = stack.enter_context(a_disk(directory / "disk", directory / "disk.image"))
        storage = disk.path / "storage"
        storage.mkdir()
        postgres = EmbeddedPostgres.start(directory / "pg")
        stack.callback(lambda: EmbeddedPostgres.start(directory / "pg").stop())
        world = World(directory, postgres, [], [], [], Said(), disk, warm_runners)
        for name in ("one", "two"):
            port = _free_port()
            relay = Relay(f"http://127.0.0.1:{port}", world.said)
            stack.callback(relay.close)
            to_postgres = PostgresRelay(directory / f"pg-{name}", directory / "pg")
            stack.callback(to_postgres.close)
            server = SteppedServer(
                disk.path / name,
                *("--port", str(port), "--node", name),
                *("--database-url", to_postgres.url(postgres.url)),
                *("--storage", storage.as_uri(), "--warm-runners", str(warm_runners)),
                environment={
                    **_ENVIRONMENT,
                    "HEADGATE_ADVERTISE": relay.url,
                    server_clock.STEP_FILE: str(world.clock_step_file),
                },
            )
            world.relays.append(relay)
            world.database_relays.append(to_postgres)
            world.servers.append(server)
            stack.callback(_end, server)
            server.start()
        yield world


def _end(server: ServerProcess) -> None:
    with contextlib.suppress(Exception):
        os.kill(server.pid, signal.SIGCONT)
    server.clean_up()
    server.http.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
