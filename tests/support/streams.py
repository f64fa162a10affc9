"""Event streams over real HTTP: a server for a cluster's routes, and a client that reads."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from fastapi import FastAPI
from sqlalchemy.engine import make_url

from jobmanager.api.context import ApiContext
from jobmanager.api.http_connections import HttpServer
from jobmanager.api.reader_figures import FiguresOfReaders
from jobmanager.loops.ticker import tick
from jobmanager.reader_supervisor import ReaderProcesses
from jobmanager.server_parts import http_server
from jobmanager.services.events import HISTORY_CHANNEL, LIVE_CHANNEL, EventHub
from jobmanager.settings import Settings
from jobmanager.store.database import Database
from jobmanager.store.notifications import listen
from tests.support.contract import check_event

CHANNELS = (HISTORY_CHANNEL, LIVE_CHANNEL)


@dataclass(frozen=True)
class HttpServed:
    """An application on a port of its own, as a real server serves it."""

    url: str
    http: HttpServer
    readers: ReaderProcesses | None = None


@asynccontextmanager
async def served(app: FastAPI, settings: Settings | None = None) -> AsyncIterator[str]:
    """The URL of the application on a port of its own."""
    async with http_served(app, settings) as found:
        yield found.url


@asynccontextmanager
async def http_served(
    app: FastAPI, settings: Settings | None = None, database_url: str = ""
) -> AsyncIterator[HttpServed]:
    """With reader processes, if the settings want some; all of them accept connections."""
    chosen = settings or Settings()
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()  # whoever has the URL is not refused
    server = http_server(app, chosen)
    server.config.timeout_graceful_shutdown = 1
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        if chosen.readers:
            async with _read_by(app, chosen, database_url, listener, server) as readers:
                yield HttpServed(url, server, readers)
        else:
            yield HttpServed(url, server)
    finally:
        server.should_exit = True
        await serving
        listener.close()


@asynccontextmanager
async def _read_by(
    app: FastAPI, settings: Settings, database_url: str, listener: socket.socket, http: HttpServer
) -> AsyncIterator[ReaderProcesses]:
    context = context_of(app)
    figures, stop = FiguresOfReaders(), asyncio.Event()
    context.meters.watch(http.open_connections, figures)
    readers = ReaderProcesses(
        settings,
        make_url(database_url).render_as_string(hide_password=False),
        frozenset(),
        context.me,
        listener,
        context.clock,
        http,
        figures,
    )
    context.access.on_revoke = readers.forget_tokens
    looking = asyncio.create_task(tick("readers", readers, 0.5, stop))
    try:
        async with asyncio.timeout(120):
            while len(figures.current) < settings.readers:  # noqa: ASYNC110 (other processes)
                await asyncio.sleep(0.05)
        yield readers
    finally:
        stop.set()
        await looking
        await readers.close()


@asynccontextmanager
async def awake(hub: EventHub, database: Database, *, hears: bool = True) -> AsyncIterator[None]:
    """The hub's loop runs, with NOTIFY or without, as in a server."""
    stop = asyncio.Event()
    tasks = [asyncio.create_task(tick("events", hub, 0.2 if not hears else 5.0, stop, hub.wake))]
    if hears:
        listening = listen(database.engine.url, CHANNELS, hub.hear, hub.wake.set, stop)
        tasks.append(asyncio.create_task(listening))
    try:
        yield
    finally:
        hub.close()
        stop.set()
        await asyncio.gather(*tasks)


class Reader:
    """Reads one stream; `next` waits for an event of some kind."""

    def __init__(self, lines: AsyncIterator[str]) -> None:
        self._lines = lines
        self.comments = 0

    async def next(self, *kinds: str, within: float = 60) -> dict[str, Any]:
        return await asyncio.wait_for(self._next(kinds), within)

    async def many(self, count: int, within: float = 60) -> list[dict[str, Any]]:
        async with asyncio.timeout(within):
            return [await self._next(()) for _ in range(count)]

    async def _next(self, kinds: tuple[str, ...]) -> dict[str, Any]:
        event: dict[str, Any] = {}
        async for line in self._lines:
            name, _, value = line.partition(": ")
            if line.startswith(":"):
                self.comments += 1
            elif not line and "event" in event:
                check_event(event["event"], event["data"])
                if not kinds or event["event"] in kinds:
                    return event
                event = {}
            elif not line:
                event = {}
            else:
                event[name] = json.loads(value) if name == "data" else value
        raise StreamEnded


class StreamEnded(Exception):
    """The server has closed the stream."""


@asynccontextmanager
async def reading(
    url: str,
    path: str = "/v1/events",
    last_event_id: int | None = None,
    token: str | None = None,
) -> AsyncIterator[Reader]:
    headers = {} if last_event_id is None else {"Last-Event-ID": str(last_event_id)}
    headers |= {"Authorization": f"Bearer {token}"} if token else {}
    timeout = httpx.Timeout(20, read=None)
    async with (
        httpx.AsyncClient(base_url=url, timeout=timeout, trust_env=False) as http,
        http.stream("GET", path, headers=headers) as response,
    ):
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = response.aiter_lines()
        with contextlib.suppress(StopAsyncIteration):
            await anext(lines)  # the stream has begun: from here on nothing is missed
        yield Reader(lines)


def context_of(app: FastAPI) -> ApiContext:
    context: ApiContext = app.state.context
    return context
