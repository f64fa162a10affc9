"""A real server with reader processes: some are killed, frozen, and left without their parent."""

import contextlib
import os
import signal
import ssl
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil
import pytest

from tests.support.certificates import Authority
from tests.support.databases import fresh_database
from tests.support.server import ServerProcess, eventually

MODULE = "jobmanager.reader_main"


@contextlib.contextmanager
def a_server_with_readers(postgres_url: str, *options: str) -> Iterator[ServerProcess]:
    with (
        tempfile.TemporaryDirectory(prefix="hg", ignore_cleanup_errors=True) as name,
        fresh_database(postgres_url) as url,
    ):
        home = Path(name)
        server = ServerProcess(
            home / "server", "--database-url", url, "--storage", (home / "storage").as_uri(),
            "--warm-runners", "0", *options,
        )  # fmt: skip
        try:
            yield server.start()
        finally:
            server.clean_up()


def readers_of(server: ServerProcess) -> list[psutil.Process]:
    found = psutil.Process(server.pid).children() if server.is_running else []
    return [one for one in found if MODULE in command_of(one)]


def command_of(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def figure(server: ServerProcess, name: str) -> float:
    text = httpx.get(f"{server.url}/metrics", trust_env=False, timeout=30).text
    return next(
        float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(f"{name} ")
    )


def until_ready(server: ServerProcess, wanted: int) -> None:
    eventually(lambda: figure(server, "headgate_readers_ready") == wanted, within=120)


@dataclass
class Client:
    """Reads and writes on connections of its own, until it is told to stop."""

    url: str
    does: str
    outcomes: Counter[str] = field(default_factory=Counter)
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        with httpx.Client(base_url=self.url, trust_env=False, timeout=60) as http:
            while not self.stop.is_set():
                try:
                    answer = http.get("/jobs") if self.does == "read" else http.post("/v1/gc")
                    self.outcomes[str(answer.status_code)] += 1
                except httpx.TransportError:
                    self.outcomes["broken"] += 1
                time.sleep(0.005)

    def end(self) -> Counter[str]:
        self.stop.set()
        self.thread.join(120)
        return self.outcomes


def test_readers_may_be_killed_and_frozen(postgres_url: str) -> None:
    """A client of a killed reader loses one connection, and is answered on the next one. Writes are
    not touched, since their connections are the server's own.
    """
    with a_server_with_readers(postgres_url, "--readers", "2") as server:
        until_ready(server, 2)
        clients = [Client(server.url, "read") for _ in range(8)]
        writers = [Client(server.url, "write") for _ in range(2)]
        time.sleep(1)
        victim = readers_of(server)[0]
        victim.send_signal(signal.SIGKILL)
        time.sleep(1)
        outcomes, written = [one.end() for one in clients], [one.end() for one in writers]

        assert all(one["broken"] <= 1 for one in outcomes)
        assert sum(one["broken"] for one in outcomes) >= 1, "the killed reader had no client"
        assert all(set(one) <= {"200", "broken"} and one["200"] > 10 for one in outcomes)
        assert all(set(one) == {"200"} for one in written)

        until_ready(server, 2)
        assert figure(server, "headgate_reader_starts_total") == 3

        for one in readers_of(server):
            one.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        assert httpx.get(f"{server.url}/jobs", trust_env=False, timeout=60).status_code == 200
        assert time.monotonic() - began < 30
        until_ready(server, 2)

        readers = readers_of(server)
        assert len(readers) == 2
        server.stop()
        assert not any(is_there(one) for one in readers)


def test_no_reader_outlives_its_server_and_the_port_is_free(postgres_url: str) -> None:
    with a_server_with_readers(postgres_url, "--readers", "1") as server:
        until_ready(server, 1)
        [reader] = readers_of(server)
        port = httpx.URL(server.url).port
        reader.suspend()  # even a reader that cannot notice it

        os.kill(server.pid, signal.SIGKILL)

        eventually(lambda: not is_there(reader), within=30)
        server.stop(signal.SIGKILL)
        server.start("--port", str(port))
        until_ready(server, 1)


def is_there(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.long
def test_reads_and_writes_with_tls_and_tokens(postgres_url: str) -> None:
    """A connection with TLS stays with the reader, which passes on what it cannot answer."""
    with tempfile.TemporaryDirectory(prefix="hg") as name:
        authority = Authority(Path(name))
        issued = authority.issue("127.0.0.1")
        tls = ["--tls-cert", str(issued.certificate), "--tls-key", str(issued.key)]
        with a_server_with_readers(postgres_url, "--readers", "1", *tls) as server:
            trust = ssl.create_default_context(cafile=authority.certificate)
            with httpx.Client(base_url=server.url, verify=trust, trust_env=False) as http:
                eventually(
                    lambda: "headgate_readers_ready 1.0" in http.get("/metrics").text, within=120
                )
            with httpx.Client(
                base_url=server.url, verify=trust, trust_env=False, timeout=60
            ) as http:
                assert http.get("/jobs").json() == {"jobs": []}
                made = http.post("/v1/tokens", json={"name": "a-viewer", "role": "viewer"})
                assert made.status_code == 201
                content = b"x = 1\n" * 500_000
                uploaded = http.post(
                    "/v1/artifacts", params={"name": "large.py"}, content=content,
                    headers={"Content-Type": "application/octet-stream"},
                )  # fmt: skip
                assert uploaded.status_code == 201
                refused = http.post("/v1/jobs", json={"name": "x" * 17_000_000})
                assert refused.status_code == 413
                assert len(http.get("/openapi.json").content) > 100_000
                shown = {"Authorization": f"Bearer {made.json()['token']}"}
                assert http.get("/jobs", headers=shown).status_code == 200
                assert http.get("/v1/tokens", headers=shown).status_code == 403
                audit = http.get("/v1/audit").json()["items"]
                assert {one["origin"] for one in audit} == {"127.0.0.1"}
            assert len(readers_of(server)) == 1
