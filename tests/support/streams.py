"""Event streams over real HTTP: a server for a cluster's routes, and a client that reads."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from fastapi import FastAPI

from jobmanager.api.context import ApiContext
from jobmanager.loops.ticker import tick
from jobmanager.server import http_server
from jobmanager.services.events import HISTORY_CHANNEL, LIVE_CHANNEL, EventHub
from jobmanager.settings import Settings
from jobmanager.store.database import Database
from jobmanager.store.notifications import listen
from tests.support.contract import check_event

CHANNELS = (HISTORY_CHANNEL, LIVE_CHANNEL)


@asynccontextmanager
async def served(app: FastAPI, settings: Settings | None = None) -> AsyncIterator[str]:
    """The application on a port of its own, as a real server serves it; its URL."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()  # whoever has the URL is not refused
    server = http_server(app, settings or Settings())
    server.config.timeout_graceful_shutdown = 1
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving
        listener.close()


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
