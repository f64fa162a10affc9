"""What strangers cost a server: silent connections, slow heads, bodies that never come, uploads
of 1 GiB.

    python -m bench.strangers [--connections 10000] [--seconds 20]

One server without runners. While each kind of stranger is there, a client asks for the list of jobs
ten times a second, each time on a new connection. The table has the times of its answers, how many
it did not get, and the memory of the server: before, at most, and at the end.
"""

import argparse
import asyncio
import os
import resource
import statistics
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import httpx
import psutil

from bench.support import a_server, table
from jobmanager.memory_return import EVERY_SECONDS

_MIB = 2**20
_GIB = 2**30
_EVERY = 0.1
_AT_ONCE = 200
"""Connections that are opened at the same time."""

Strangers = Callable[["Attack"], Awaitable[str]]


@dataclass
class Attack:
    url: httpx.URL
    connections: int
    seconds: float
    transports: list[asyncio.Transport] = field(default_factory=list)

    async def open(self, count: int, first: bytes = b"") -> int:
        """Open connections and say something on each; returns how many were accepted."""
        accepted = 0
        for begun in range(0, count, _AT_ONCE):
            opening = [self._open(first) for _ in range(min(_AT_ONCE, count - begun))]
            accepted += sum(await asyncio.gather(*opening))
        return accepted

    async def say(self, data: bytes) -> int:
        """Say something on every connection; returns how many are still open."""
        there = [one for one in self.transports if not one.is_closing()]
        for one in there:
            one.write(data)
        await asyncio.sleep(0)
        return len(there)

    async def _open(self, first: bytes) -> bool:
        with suppress(OSError):
            loop = asyncio.get_running_loop()
            # The plain protocol closes a connection that the server has closed.
            transport, _ = await loop.create_connection(
                asyncio.Protocol, self.url.host, self.url.port or 80
            )
            transport.write(first)
            self.transports.append(transport)
            return True
        return False


async def _nobody(attack: Attack) -> str:
    await asyncio.sleep(attack.seconds)
    return ""


async def _nobody_for_a_while(attack: Attack) -> str:
    """Until the server has looked twice whether it can give memory back."""
    await asyncio.sleep(2 * EVERY_SECONDS + 5)
    return ""


async def _silent(attack: Attack) -> str:
    accepted = await attack.open(attack.connections)
    await asyncio.sleep(attack.seconds)
    return f"{accepted} connected, {await attack.say(b'')} open at the end"


async def _slow_heads(attack: Attack) -> str:
    begun = time.monotonic()
    accepted = await attack.open(attack.connections // 5, b"GET /v1/jobs HTTP/1.1\r\nX-Slow: ")
    while time.monotonic() < begun + attack.seconds:
        await attack.say(b"x")
        await asyncio.sleep(1)
    return f"{accepted} connected, {await attack.say(b'')} open at the end"


async def _missing_bodies(attack: Attack) -> str:
    head = (
        f"POST /v1/jobs HTTP/1.1\r\nHost: {attack.url.host}\r\nContent-Type: application/json\r\n"
        "Content-Length: 1000\r\n\r\n{"
    )
    accepted = await attack.open(attack.connections // 5, head.encode())
    await asyncio.sleep(attack.seconds)
    return f"{accepted} connected, {await attack.say(b'')} open at the end"


def _upload(path: str, kind: str, *, told: bool) -> Strangers:
    """One GiB, with its length told or in chunks."""

    async def send(attack: Attack) -> str:
        sent = 0

        def pieces() -> Iterator[bytes]:
            nonlocal sent
            sent = 0
            while sent < _GIB:
                sent += _MIB
                yield b" " * _MIB

        headers = {"Content-Type": kind} | ({"Content-Length": str(_GIB)} if told else {})

        def post() -> str:
            url = attack.url.join(path)
            try:
                answer = httpx.post(
                    url, content=pieces(), headers=headers, timeout=60, trust_env=False
                )
            except httpx.HTTPError as error:
                return type(error).__name__
            return f"{answer.status_code}"

        answers = [await asyncio.to_thread(post) for _ in range(4)]
        return f"{', '.join(answers)}; {sent // _MIB} MiB sent of the last"

    return send


async def _huge_heads(attack: Attack) -> str:
    ended: dict[str, int] = {}
    for _ in range(50):
        reader, writer = await asyncio.open_connection(attack.url.host, attack.url.port)
        with suppress(OSError):
            writer.write(b"GET / HTTP/1.1\r\nX-Huge: ")
            for _ in range(64):
                writer.write(b"x" * _MIB)
                await writer.drain()
        told = b""
        with suppress(OSError):
            told = await reader.read(12)
        status = told[9:12].decode() or "closed"
        ended[status] = ended.get(status, 0) + 1
        writer.close()
    return ", ".join(f"{count} x {status}" for status, count in ended.items())


_ARTIFACT = ("/v1/artifacts?name=a.zip", "application/octet-stream")
_GRAPH = ("/v1/jobs", "application/json")
_KINDS: dict[str, Strangers] = {
    "nobody": _nobody,
    "silent connections": _silent,
    "heads, a byte a second": _slow_heads,
    "bodies that never come": _missing_bodies,
    "heads of 64 MiB": _huge_heads,
    "artifacts of 1 GiB": _upload(*_ARTIFACT, told=True),
    "the same in chunks": _upload(*_ARTIFACT, told=False),
    "graphs of 1 GiB, in chunks": _upload(*_GRAPH, told=False),
    # What memory did the first time may be kept by the allocator: does it grow again?
    "silent connections, again": _silent,
    "bodies that never come, again": _missing_bodies,
    "graphs of 1 GiB, again": _upload(*_GRAPH, told=False),
    "silent connections, a third time": _silent,
    "bodies that never come, a third time": _missing_bodies,
    "graphs of 1 GiB, a third time": _upload(*_GRAPH, told=False),
    "nobody, afterwards": _nobody_for_a_while,
}


class Client:
    """Asks again and again, and watches the memory of the server."""

    def __init__(self, url: str, pid: int) -> None:
        self._url = url
        self._server = psutil.Process(pid)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask)
        self.took: list[float] = []
        self.failed: Counter[str] = Counter()
        """How often there was no answer, or another than wanted, by the reason."""
        self.before = self.most = self.memory()

    def memory(self) -> int:
        return int(self._server.memory_info().rss)

    def __enter__(self) -> "Client":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _ask(self) -> None:
        while not self._stop.wait(_EVERY):
            begun = time.monotonic()
            try:
                answer = httpx.get(f"{self._url}/v1/jobs", timeout=30, trust_env=False)
                if answer.status_code != 200:
                    self.failed[f"{answer.status_code} {answer.text[:100]}"] += 1
            except httpx.HTTPError as error:
                self.failed[type(error).__name__] += 1
            self.took.append(time.monotonic() - begun)
            self.most = max(self.most, self.memory())


async def _measured(name: str, url: str, pid: int, connections: int, seconds: float) -> list[str]:
    attack = Attack(httpx.URL(url), connections, seconds)
    with Client(url, pid) as client:
        outcome = await _KINDS[name](attack)
    for one in attack.transports:
        one.close()
    await asyncio.sleep(2)
    p50, worst = statistics.median(client.took), max(client.took)
    return [
        name,
        outcome,
        f"{1000 * p50:.0f} / {1000 * worst:.0f}",
        "; ".join([f"{client.failed.total()} of {len(client.took)}", *client.failed]),
        f"{client.before // _MIB} / {client.most // _MIB} / {client.memory() // _MIB}",
    ]


async def _rows(url: str, pid: int, connections: int, seconds: float) -> AsyncIterator[list[str]]:
    for name in _KINDS:
        yield await _measured(name, url, pid, connections, seconds)


async def _main(connections: int, seconds: float) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    os.environ["HEADGATE_WARM_RUNNERS"] = "0"
    with a_server() as server:
        url = server.url.rstrip("/")
        rows = [row async for row in _rows(url, server.pid, connections, seconds)]
    table(
        ["strangers", "outcome", "GET, p50 / max, ms", "not answered", "memory, MiB"],
        rows,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=20)
    given = parser.parse_args()
    asyncio.run(_main(given.connections, given.seconds))
