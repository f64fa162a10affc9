"""Limits of one server: the size of bodies, the time to send them, the length of queues.

A body is read to its end before anything else begins, so a client that sends slowly holds
no transaction and takes no turn. A client whose request does not fit into the queue is asked to try
again.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from tempfile import SpooledTemporaryFile

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jobmanager.api import problems
from jobmanager.api.runner_calls import check_caller
from jobmanager.core.errors import (
    BodyTooLarge,
    BodyTooSlow,
    DomainError,
    MalformedRequest,
    TooBusy,
)
from jobmanager.core.json_text import unstorable
from jobmanager.core.open_connections import ConnectionLimits

MOST_BODY_BYTES = 16 * 1024 * 1024
MOST_HELD_BYTES = 16 * MOST_BODY_BYTES
"""At most so many bytes of all bodies together are in memory."""
BODY_WITHIN = ConnectionLimits.body_within
BODY_IDLE = ConnectionLimits.body_idle
_UNASKED = 64 * 1024
"""Bytes of a body that are read without a need, or before it is known who sends it."""
_FORM_BYTES = 64 * 1024
"""What a form adds to the file in it."""
_PIECE = 1024 * 1024
"""Of a body, as a route is given it."""


class BodyLimit:
    """Reads the body, and refuses a body that is too large or arrives too slowly. Also refuses a
    NUL character in a URL, and text in JSON that Postgres cannot store.

    Nobody is asked for a token by the routes of runners before the body is read, since most of
    their bodies are small and many. A large one is read only from a runner that is known.
    """

    def __init__(self, app: ASGIApp, within: float, idle: float, most_upload_bytes: int) -> None:
        self._app = app
        self._within = within
        self._idle = idle
        self._most_upload_bytes = most_upload_bytes
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:
            await _refuse(MalformedRequest("the URL contains a NUL character"), scope, send)
            return
        if is_read(scope) and not _has_body(scope):
            await self._app(scope, receive, send)
            return
        # An upload goes to disk: in memory there is only a piece of it.
        in_memory = _PIECE if is_upload(scope["path"]) else MOST_BODY_BYTES
        with SpooledTemporaryFile(in_memory) as body:
            try:
                await self._serve(scope, receive, send, body)
            finally:
                self._held -= body.tell()

    async def _serve(
        self, scope: Scope, receive: Receive, send: Send, body: SpooledTemporaryFile[bytes]
    ) -> None:
        try:
            is_there = await self._read_in_time(scope, receive, body)
        except DomainError as error:
            await _refuse(error, scope, send)
            return
        size = body.tell()
        body.seek(0)
        try:
            if is_there and _is_json(scope) and (found := unstorable(body.read())):
                await _refuse(MalformedRequest(f"the body contains {found}"), scope, send)
            elif is_there:
                body.seek(0)
                await self._app(scope, _replayed(body, size, receive), send)
        finally:
            body.seek(size)

    async def _read_in_time(
        self, scope: Scope, receive: Receive, body: SpooledTemporaryFile[bytes]
    ) -> bool:
        """Read the body; False: the client disconnected."""
        now = asyncio.get_running_loop().time
        until = now() + self._within
        try:
            async with asyncio.timeout_at(until) as limit:

                async def receive_soon() -> Message:
                    limit.reschedule(min(until, now() + self._idle))
                    return await receive()

                return await self._read(scope, receive_soon, body)
        except TimeoutError:
            told = f"the body did not arrive within {self._within:g} s"
            if now() < until:
                told = f"nothing of the body arrived for {self._idle:g} s"
            raise BodyTooSlow(told) from None

    async def _read(
        self, scope: Scope, receive: Receive, body: SpooledTemporaryFile[bytes]
    ) -> bool:
        length = Headers(scope=scope).get("content-length", "0")
        most = self._most_bytes(scope)
        if length.isdigit() and int(length) > most:
            raise BodyTooLarge(
                f"the request body is too large: at most {most} bytes are accepted here"
            )
        is_known = not is_runner_call(scope["path"])
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return False
            chunk = message.get("body", b"")
            if not is_known and body.tell() + len(chunk) > _UNASKED:
                await check_caller(scope)
                is_known = True
            try:
                body.write(chunk)
            except OSError as error:
                raise TooBusy(f"there is no room for the body: {error.strerror}") from error
            self._held += len(chunk)
            if body.tell() > most:
                raise BodyTooLarge(
                    f"the request body is too large: at most {most} bytes are accepted here"
                )
            if self._held > MOST_HELD_BYTES:
                raise TooBusy("too many large uploads at once: try again in a moment")
            if not message.get("more_body", False):
                return True

    def _most_bytes(self, scope: Scope) -> int:
        if is_read(scope):
            return _UNASKED
        if is_upload(scope["path"]):
            return self._most_upload_bytes + _FORM_BYTES
        return MOST_BODY_BYTES


@dataclass
class Lane:
    """A queue: `at_once` requests run, `waiting` more may wait, each for `patience` seconds."""

    at_once: int
    waiting: int
    patience: float = 5.0
    _turns: asyncio.Semaphore = field(init=False)
    _queued: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._turns = asyncio.Semaphore(self.at_once)

    async def enter(self) -> None:
        if self._queued >= self.waiting:
            raise TooBusy(
                f"{self.waiting} requests are already waiting for their turn: try again in a moment"
            )
        self._queued += 1
        try:
            async with asyncio.timeout(self.patience):
                await self._turns.acquire()
        except TimeoutError:
            raise TooBusy(
                f"the server is busy, no turn within {self.patience:g} s: try again"
            ) from None
        finally:
            self._queued -= 1

    def leave(self) -> None:
        self._turns.release()


def default_lanes() -> Mapping[str, Lane]:
    """Make the lanes. A flood in one lane does not slow the others: all lanes and the background
    loops together fit into the pool of connections. Batched requests share one connection.
    """
    return {
        "reads": Lane(at_once=12, waiting=500),
        "writes": Lane(at_once=12, waiting=100),
        "runners": Lane(at_once=12, waiting=1000),
        "gathered": Lane(at_once=500, waiting=2000),
        "slow": Lane(at_once=8, waiting=50),
    }


class Gate:
    """Makes each request wait for its turn in its lane. A turn ends when the answer begins: by then
    everything is committed, and a client that reads slowly keeps nobody waiting.
    """

    def __init__(self, app: ASGIApp, lanes: Mapping[str, Lane]) -> None:
        self._app = app
        self._lanes = lanes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = _lane_of(scope)
        if name is None:
            await self._app(scope, receive, send)
            return
        lane = self._lanes[name]
        try:
            await lane.enter()
        except TooBusy as error:
            await _refuse(error, scope, send)
            return
        has_turn = True

        def leave() -> None:
            nonlocal has_turn
            if has_turn:
                has_turn = False
                lane.leave()

        async def send_after_turn(message: Message) -> None:
            leave()
            await send(message)

        try:
            await self._app(scope, receive, send_after_turn)
        finally:
            leave()


def is_runner_call(path: str) -> bool:
    """Whether the path is /runners/{id}/…, with or without /v1. The list of runners is an ordinary
    read.
    """
    parts = path.removeprefix("/v1").strip("/").split("/")
    return parts[0] == "runners" and len(parts) > 2


def is_upload(path: str) -> bool:
    """Of an artifact or a jar."""
    return path.removeprefix("/v1").strip("/") in ("artifacts", "jars/upload")


def _is_json(scope: Scope) -> bool:
    """Whether the body is JSON; also a body without a content type, unless it is an upload."""
    kind = Headers(scope=scope).get("content-type", "")
    return "json" in kind or not (kind or is_upload(scope["path"]))


def is_read(scope: Scope) -> bool:
    return scope["method"] in ("GET", "HEAD", "OPTIONS")


def _has_body(scope: Scope) -> bool:
    headers = scope["headers"]
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        for name, value in headers
    )


def _is_slow(path: str) -> bool:
    """Whether the route asks Spark or reads all files of a snapshot: it takes long, but holds no
    transaction.
    """
    parts = path.removeprefix("/v1").strip("/").split("/")
    if parts[0] == "jars" and len(parts) > 2:  # a program may be run up to its queries
        return True
    return parts[2:3] in (["state"], ["upgrade"]) or parts[-1] in ("verify", "describe")


def _lane_of(scope: Scope) -> str | None:
    if scope["type"] != "http" or scope["path"].endswith(("/healthz", "/readyz")):
        return None
    if is_runner_call(scope["path"]):
        # A request that waits for directives takes no turn: most of the time it holds no
        # connection.
        if is_read(scope):
            return None
        return "gathered" if scope["path"].endswith(("/heartbeat", "/acks")) else "runners"
    if _is_slow(scope["path"]):
        return "slow"
    return "reads" if is_read(scope) else "writes"


def _replayed(body: SpooledTemporaryFile[bytes], size: int, receive: Receive) -> Receive:
    is_over = False

    async def replay() -> Message:
        nonlocal is_over
        if is_over:
            return await receive()
        chunk = body.read(_PIECE)
        is_over = body.tell() >= size
        return {"type": "http.request", "body": chunk, "more_body": not is_over}

    return replay


async def _refuse(error: DomainError, scope: Scope, send: Send) -> None:
    with suppress(OSError):
        await problems.response(scope, error)(scope, _no_more, send)


async def _no_more() -> Message:
    return {"type": "http.disconnect"}
