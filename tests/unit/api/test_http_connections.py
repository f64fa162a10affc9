"""What a connection may cost: its time, the size of a head, its place among others."""

import asyncio
import json
import resource
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

from jobmanager.core.open_connections import SPARE
from jobmanager.files.open_files import room_below
from jobmanager.settings import Settings
from tests.support.certificates import Authority
from tests.support.streams import served

pytestmark = pytest.mark.anyio
SOON = timedelta(milliseconds=300)
PATIENCE = 60.0
HEAD = b"GET /told HTTP/1.1\r\nHost: localhost\r\n"
REQUEST = HEAD + b"\r\n"

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def an_app() -> FastAPI:
    """Answers, refuses a body without reading it, and streams until it is told to end."""
    app = FastAPI()
    app.state.may_end = asyncio.Event()

    @app.get("/told")
    async def told() -> dict[str, bool]:
        return {"told": True}

    @app.post("/taken")
    async def taken(request: Request) -> dict[str, int]:
        return {"bytes": len(await request.body())}

    @app.post("/refused")
    async def refused() -> dict[str, bool]:
        return {"refused": True}

    @app.get("/stream")
    async def stream() -> StreamingResponse:
        async def lines() -> AsyncIterator[bytes]:
            yield b"begun\n"
            await app.state.may_end.wait()
            yield b"ended\n"

        return StreamingResponse(lines())

    @app.get("/much")
    async def much() -> StreamingResponse:
        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(1000):
                yield b" " * 65536

        return StreamingResponse(pieces())

    return app


@pytest.fixture
def app() -> FastAPI:
    return an_app()


def some_settings(**changes: Any) -> Settings:
    return Settings(**{"most_connections": 20, "head_timeout": SOON, **changes})


@asynccontextmanager
async def opened(url: str, count: int = 1) -> AsyncIterator[list[Connection]]:
    address = httpx.URL(url)
    assert address.port is not None
    made = [await asyncio.open_connection(address.host, address.port) for _ in range(count)]
    try:
        yield made
    finally:
        for _, writer in made:
            writer.close()


async def all_of(reader: asyncio.StreamReader) -> bytes:
    """What the server says until it closes the connection."""
    async with asyncio.timeout(PATIENCE):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""


def problem_in(answer: bytes) -> dict[str, Any]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head, answer
    assert b"connection: close" in head.lower()
    found: dict[str, Any] = json.loads(body)
    return found


async def answers(url: str) -> bool:
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=PATIENCE) as http:
        return bool((await http.get("/told")).json()["told"])


async def test_a_connection_that_says_nothing_is_closed(app: FastAPI) -> None:
    async with served(app, some_settings()) as url, opened(url, 5) as silent:
        for reader, _ in silent:
            assert await all_of(reader) == b""
        assert await answers(url)


@pytest.mark.parametrize("before", [b"", REQUEST])
async def test_a_head_that_comes_byte_by_byte_is_not_awaited_without_end(
    app: FastAPI, before: bytes
) -> None:
    async with served(app, some_settings()) as url, opened(url) as [(reader, writer)]:
        writer.write(before)
        if before:
            await reader.readuntil(b"}")
        sending = asyncio.create_task(drip(writer, HEAD + b"X-Slow: " + b"x" * 10_000))
        answer = await all_of(reader)
        sending.cancel()

    problem = problem_in(answer)
    assert (problem["status"], problem["type"]) == (408, "/problems/HeadTooSlow")
    assert "did not arrive within 0.3 s" in problem["detail"]


async def drip(writer: asyncio.StreamWriter, data: bytes) -> None:
    for byte in data:
        writer.write(bytes([byte]))
        await asyncio.sleep(0.02)


async def test_a_connection_without_a_further_request_is_kept_for_a_while_only(
    app: FastAPI,
) -> None:
    kept = some_settings(keep_alive=timedelta(seconds=1))
    async with served(app, kept) as url, opened(url) as [(reader, writer)]:
        writer.write(REQUEST)
        assert (await reader.readuntil(b"}")).endswith(b'{"told":true}')
        assert await all_of(reader) == b""


async def test_a_stream_outlives_all_limits_of_time(app: FastAPI) -> None:
    strict = some_settings(keep_alive=timedelta(seconds=1), unread_timeout=timedelta(seconds=1))
    async with (
        served(app, strict) as url,
        httpx.AsyncClient(base_url=url, trust_env=False, timeout=PATIENCE) as http,
        http.stream("GET", "/stream") as stream,
    ):
        lines = stream.aiter_lines()
        assert await anext(lines) == "begun"
        await asyncio.sleep(2.5)
        app.state.may_end.set()
        assert await anext(lines) == "ended"


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(HEAD + b"X-Long: " + b"x" * 70_000, id="one value without an end"),
        pytest.param(HEAD + b"X-Many: x\r\n" * 7_000, id="headers without an end"),
        pytest.param(b"GET /" + b"x" * 70_000, id="a path without an end"),
        pytest.param(HEAD + b"X-Long: " + b"x" * 70_000 + b"\r\n\r\n", id="a whole head"),
    ],
)
async def test_a_head_that_is_too_large_is_refused(app: FastAPI, head: bytes) -> None:
    patient = some_settings(head_timeout=timedelta(minutes=1))
    async with served(app, patient) as url, opened(url) as [(reader, writer)]:
        writer.write(head)
        problem = problem_in(await all_of(reader))
        assert (problem["status"], problem["type"]) == (431, "/problems/HeadTooLarge")
        assert await answers(url)


async def test_a_trailer_without_an_end_is_broken_off(app: FastAPI) -> None:
    head = b"POST /taken HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with served(app, some_settings()) as url, opened(url) as [(reader, writer)]:
        writer.write(head + b"1\r\nx\r\n0\r\n" + b"X-Trailer: " + b"x" * 500_000)
        assert await all_of(reader) == b""


async def test_requests_that_are_sent_ahead_are_few(app: FastAPI) -> None:
    async with served(app, some_settings()) as url, opened(url, 2) as [modest, greedy]:
        modest[1].write(REQUEST * 10)
        for _ in range(10):
            assert (await modest[0].readuntil(b"}")).endswith(b'{"told":true}')
        greedy[1].write(b"GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n" + REQUEST * 1_000)
        assert b"ended" not in await all_of(greedy[0])


async def test_a_client_that_does_not_read_is_given_up(app: FastAPI) -> None:
    impatient = some_settings(unread_timeout=timedelta(seconds=1))
    async with served(app, impatient) as url, opened(url) as [(reader, writer)]:
        writer.write(b"GET /much HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await asyncio.sleep(0.2)
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(3)
        reader._transport.resume_reading()  # type: ignore[attr-defined]
        got = await all_of(reader)
        assert not got.endswith(b"0\r\n\r\n")


async def test_silent_connections_make_room_for_a_client_that_speaks(app: FastAPI) -> None:
    patient = some_settings(head_timeout=timedelta(minutes=1))
    async with served(app, patient) as url, opened(url, 60):
        for _ in range(10):
            assert await answers(url)


async def test_bodies_that_never_come_make_room_too(app: FastAPI) -> None:
    patient = some_settings(head_timeout=timedelta(minutes=1))
    head = b"POST /taken HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"
    async with served(app, patient) as url, opened(url, 20) as owing:
        for _, writer in owing:
            writer.write(head + b"x")
        await asyncio.sleep(0.2)
        for _ in range(10):
            assert await answers(url)


async def test_a_connection_beyond_those_in_use_is_told_so(app: FastAPI) -> None:
    async with (
        served(app, some_settings(most_connections=2)) as url,
        opened(url, 2) as streams,
    ):
        for reader, writer in streams:
            writer.write(b"GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await reader.readuntil(b"begun")
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=PATIENCE) as http:
            refused = await http.get("/told")
        assert refused.status_code == 503
        assert refused.json()["type"] == "/problems/TooManyConnections"
        assert "HEADGATE_MOST_CONNECTIONS" in refused.json()["detail"]
        assert refused.headers["retry-after"] == "2"

        app.state.may_end.set()
        for reader, _ in streams:
            await reader.readuntil(b"0\r\n\r\n")
        assert await answers(url)


async def test_a_refused_body_is_neither_awaited_nor_read(app: FastAPI) -> None:
    """And the answer arrives, though the client sends on."""
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        while sent < 2**30:
            sent += 2**20
            yield b" " * 2**20

    def upload(url: str) -> httpx.Response:
        return httpx.post(f"{url}/refused", content=endless(), trust_env=False, timeout=PATIENCE)

    async with served(app, some_settings()) as url:
        answer = await asyncio.to_thread(upload, url)
        assert (answer.status_code, answer.headers["connection"]) == (200, "close")
        assert answer.json() == {"refused": True}
        assert sent < 2**28
        assert await answers(url)


async def test_handshakes_that_never_end_are_counted_and_given_up(
    app: FastAPI, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    issued = authority.issue("127.0.0.1")
    guarded = some_settings(
        tls_cert=issued.certificate, tls_key=issued.key, head_timeout=timedelta(seconds=1)
    )
    trusted = ssl.create_default_context(cafile=str(authority.certificate))
    async with served(app, guarded) as plain, opened(plain, 20 + SPARE + 5) as silent:
        url = plain.replace("http:", "https:")
        for reader, _ in silent:
            assert await all_of(reader) == b""
        async with httpx.AsyncClient(base_url=url, verify=trusted, timeout=PATIENCE) as http:
            async with asyncio.timeout(PATIENCE):
                while not await _is_answered(http):  # noqa: ASYNC110
                    await asyncio.sleep(0.1)


async def _is_answered(http: httpx.AsyncClient) -> bool:
    """Whether there is room again, and an honest handshake takes less than the allowed second."""
    try:
        return (await http.get("/told")).status_code == 200
    except httpx.TransportError:
        return False


def test_files_remain_for_everything_else_than_connections() -> None:
    assert room_below(20_000, 2000) == 2000
    assert room_below(resource.RLIM_INFINITY, 2000) == 2000
    assert room_below(2500, 2000) == 1500
    assert room_below(1024, 2000) == 512
