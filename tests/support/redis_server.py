"""A real Redis server, in a process of its own.

Debian's package `redis-server` also starts a service. The program itself is in `redis-tools` under
another name, and is a server if it is called `redis-server`.
"""

import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.support.certificates import Authority
from tests.support.server import eventually

PROGRAM = "redis-server"
MISSING = (
    f"{PROGRAM} is not installed, and nothing about Redis was tested: `make redis`, or on Debian "
    "apt-get install redis-tools"
)


def program() -> str | None:
    """The path of the server's program."""
    return shutil.which(PROGRAM) or shutil.which("redis-check-rdb")


@dataclass
class RedisUnderTest:
    """The server as a plain client sees it. Its data is in memory only."""

    port: int
    settings: tuple[str, ...] = ()
    tls: Mapping[str, str] = field(default_factory=dict)
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        return f"redis{'s' if self.tls else ''}://127.0.0.1:{self.port}/0"

    def client(self, **fields: Any) -> "redis.Redis":
        if self.tls:
            fields = {"ssl": True, "ssl_ca_certs": self.tls["ca"], **fields}
        return redis.Redis(host="127.0.0.1", port=self.port, decode_responses=True, **fields)

    def start(self) -> None:
        command = [PROGRAM, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        ports = ["--port", str(self.port)]
        if self.tls:
            ports = ["--port", "0", "--tls-port", str(self.port), "--tls-auth-clients", "no"]
            ports += ["--tls-cert-file", self.tls["certificate"]]
            ports += ["--tls-key-file", self.tls["key"]]
        self.process = subprocess.Popen(
            [*command, *ports, *self.settings],
            executable=program(),
            cwd=tempfile.gettempdir(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        eventually(self._answers, within=30)

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"{PROGRAM} ended at its start"
        try:
            with self.client() as client:
                return bool(client.ping())
        except redis.AuthenticationError:
            return True
        except (redis.RedisError, OSError):
            return False


@contextmanager
def a_redis(*settings: str, tls: Mapping[str, str] | None = None) -> Iterator[RedisUnderTest]:
    """A server with settings of its command line. Without the program the test is skipped, and
    says so.
    """
    if program() is None:
        pytest.skip(MISSING)
    server = RedisUnderTest(free_port(), settings, tls or {})
    with ExitStack() as at_end:
        at_end.callback(server.kill)
        server.start()
        yield server


def certificates(directory: Path) -> Mapping[str, str]:
    """What a server needs for TLS, by an authority of its own."""
    authority = Authority(directory)
    issued = authority.issue("127.0.0.1")
    return {
        "ca": str(authority.certificate),
        "certificate": str(issued.certificate),
        "key": str(issued.key),
    }


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
