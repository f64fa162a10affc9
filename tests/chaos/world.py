"""A small world of real processes to do harm to: Postgres, two servers, relays, a disk, a job.

Each server is on a machine of its own by name (`--node`), so that one that leads can reach the
runners it has started itself and no others.
"""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from jobmanager.store.embedded import EmbeddedPostgres
from tests.chaos.relay import Relay, Said
from tests.chaos.schedule import Limits
from tests.e2e.test_exactly_once import a_bounded_job
from tests.support.oracle import generator_started_at
from tests.support.server import ServerProcess, eventually, processes_of

LIMITS = Limits(heartbeat_timeout=9.0, lease=3.0)
DISK_BYTES = 256 * 1024 * 1024
_ENVIRONMENT = {
    "HEADGATE_HEARTBEAT_TIMEOUT": f"PT{LIMITS.heartbeat_timeout:g}S",
    "HEADGATE_LEASE": f"PT{LIMITS.lease:g}S",
    "HEADGATE_LEASE_RENEWAL": "PT1S",
    # many JVMs that live for a minute: less is spent on making them fast
    "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
_PATIENCE = 300.0
"""Seconds for whatever comes by itself, on a machine that has much else to do."""


@dataclass
class World:
    directory: Path
    postgres: EmbeddedPostgres
    servers: list[ServerProcess]
    relays: list[Relay]
    said: Said
    has_small_disk: bool
    job: str = ""
    began_ms: int = 0
    runners: set[str] = field(default_factory=set)
    """All that were ever seen."""

    @property
    def storage(self) -> Path:
        return self.directory / "storage"

    @property
    def output(self) -> Path:
        return self.storage / "data" / "out"

    @property
    def postgres_directory(self) -> Path:
        return self.directory / "pg"

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
        storage = directory / "storage"
        storage.mkdir(parents=True)
        has_small_disk = stack.enter_context(_small_disk(storage))
        postgres = EmbeddedPostgres.start(directory / "pg")
        stack.callback(lambda: EmbeddedPostgres.start(directory / "pg").stop())
        said, relays, servers = Said(), [], []
        for name in ("one", "two"):
            port = _free_port()
            relay = Relay(f"http://127.0.0.1:{port}", said)
            stack.callback(relay.close)
            server = ServerProcess(
                directory / name,
                *("--port", str(port), "--node", name, "--database-url", postgres.url),
                *("--storage", storage.as_uri(), "--warm-runners", str(warm_runners)),
                environment={**_ENVIRONMENT, "HEADGATE_ADVERTISE": relay.url},
            )
            relays.append(relay)
            servers.append(server)
            stack.callback(_end, server)
            server.start()
        yield World(directory, postgres, servers, relays, said, has_small_disk)


def _end(server: ServerProcess) -> None:
    with contextlib.suppress(Exception):
        os.kill(server.pid, signal.SIGCONT)
    server.clean_up()
    server.http.close()


@contextmanager
def _small_disk(path: Path) -> Iterator[bool]:
    """A file system of its own that can be filled; False: this user may not mount one."""
    options = ["-t", "tmpfs", "-o", f"size={DISK_BYTES}", "headgate-chaos", str(path)]
    mounted = subprocess.run(["mount", *options], capture_output=True, check=False)
    if mounted.returncode != 0:
        yield False
        return
    try:
        yield True
    finally:
        subprocess.run(["umount", "--lazy", str(path)], capture_output=True, check=False)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
