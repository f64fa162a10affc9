"""Uvicorn with limits on what a connection may cost: time, memory, and its place among others.

Uvicorn waits without end for the head of a request, keeps a head of any length and any number of
requests that a client sends ahead, and refuses everybody where there are too many connections.
Here `core/open_connections.py` decides how long a connection may take and which one makes room for
a new one. A request that is refused before its body was read is answered, and the rest of the
body is not awaited.
"""

import asyncio
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog
import uvicorn
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from jobmanager.api import problems
from jobmanager.api.security_headers import ON_EVERY_ANSWER, POLICY, POLICY_OF_DATA
from jobmanager.core.errors import DomainError, HeadTooLarge, HeadTooSlow, TooManyConnections
from jobmanager.core.open_connections import Admission, ConnectionLimits, OpenConnections, Phase

_log = structlog.get_logger(__name__)
_SENT_AHEAD = 16
"""Requests that a client may send before the first of them is answered."""
_LINGER_SECONDS = 5.0
_LINGER_BYTES = 64 * 1024 * 1024
"""Of a body that was refused. They are thrown away: a client whose connection is closed while it
sends may never see the answer."""
_CLOSED_AT_ONCE = 100
_LOG_EVERY = 60.0


class HttpServer(uvicorn.Server):
    """Uvicorn with guarded connections, and without signal handlers of its own: Headgate's server
    decides the order of the shutdown.
    """

    def __init__(self, config: uvicorn.Config, limits: ConnectionLimits | None = None) -> None:
        super().__init__(config)
        self.open_connections: OpenConnections[GuardedConnection] = OpenConnections(
            limits or ConnectionLimits()
        )
        self._logged_at = float("-inf")
        self._logged: dict[str, int] = {}
        self.servers: list[asyncio.Server] = []
        self._listeners: list[socket.socket] = []
        self._accepting = asyncio.Lock()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._listeners = list(sockets or ())
        await self.accept()
        self.started = True

    async def accept(self) -> None:
        """Accept connections; nothing happens if they are accepted already."""
        async with self._accepting:
            if self.servers or self.should_exit:
                return
            loop, ssl = asyncio.get_running_loop(), self.config.ssl
            handshake = self.open_connections.limits.head_within if ssl else None
            self.servers = [
                await loop.create_server(
                    self._connection,
                    sock=GuardedListener(one, self.open_connections),
                    ssl=ssl,
                    backlog=self.config.backlog,
                    ssl_handshake_timeout=handshake,
                    ssl_shutdown_timeout=handshake,
                )
                for one in self._listeners
            ]

    def leave_accepting(self) -> None:
        """Leave new connections to other processes that have the same listening socket."""
        for one in self.servers:
            one.close()
        self.servers = []

    def make_connection(self) -> "GuardedConnection":
        return GuardedConnection(self.config, self.server_state, self.open_connections)

    def admit(self, made: "GuardedConnection") -> "GuardedConnection":
        """Enter a new connection into the list of open connections."""
        made.admission, victim = self.open_connections.admit(made, time.monotonic())
        if victim is not None:
            victim.end()
        return made

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:
            self._sweep(time.monotonic())
        return await super().on_tick(counter)

    def _connection(self) -> "GuardedConnection":
        """Called for each connection that is accepted, with TLS before the handshake."""
        return self.admit(self.make_connection())

    def _sweep(self, now: float) -> None:
        for connection, phase in self.open_connections.overdue(now):
            connection.give_up(phase)
        told = dict(self.open_connections.closed_because)
        if told != self._logged and now - self._logged_at >= _LOG_EVERY:
            _log.warning("connections closed", open=len(self.open_connections), **told)
            self._logged, self._logged_at = told, now


class GuardedListener(socket.socket):
    """Closes a connection that is one too many as soon as it is accepted: a TLS handshake with it
    would cost memory.
    """

    def __init__(
        self, listener: socket.socket, connections: "OpenConnections[GuardedConnection]"
    ) -> None:
        super().__init__(fileno=os.dup(listener.fileno()))
        self._open = connections

    def accept(self) -> tuple[socket.socket, Any]:
        for _ in range(_CLOSED_AT_ONCE):
            accepted, address = super().accept()
            if not self._open.is_full:
                return accepted, address
            self._open.note("dropped")
            accepted.close()
        raise BlockingIOError  # other things have to be done, too


class GuardedConnection(HttpToolsProtocol):
    """A connection that tells the list of open connections its phases."""

    transport: "LingeringTransport"

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        connections: "OpenConnections[GuardedConnection]",
    ) -> None:
        super().__init__(config, server_state, {})
        self.admission = Admission.ADMITTED
        self._open = connections
        self._served_app: Any = self.app
        self.app = self._serve
        self._is_in_head = False
        self._has_progressed = False
        self._silent_bytes = 0
        """Bytes since the parser last made something of them: of a head, or of a trailer."""
        self._head_size = 0
        self._is_too_much = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        lingering = LingeringTransport(transport, self)
        super().connection_made(lingering)
        if self._open.phase_of(self) is None:
            transport.abort()  # it had to make room during its handshake
            return
        self._enter(Phase.FRESH)

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.leave(self)
        if self.flow is not None:
            self.transport.is_lost()
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.takes_away(data):
            return
        phase = self._open.phase_of(self)
        if phase is Phase.KEPT:
            self._enter(Phase.HEAD)
        elif phase is Phase.RECEIVING:
            self._enter(Phase.RECEIVING)  # it is the last in its line again
        self._has_progressed = False
        super().data_received(data)
        self._silent_bytes = 0 if self._has_progressed else self._silent_bytes + len(data)
        most = self._open.limits.head_bytes
        if self._is_too_much:
            self._open.note("sent too many requests ahead")
            self.end()
        elif self._silent_bytes > most and not self.transport.is_closing():
            self._refuse(HeadTooLarge(f"the head of the request is larger than {most} bytes"))

    def on_message_begin(self) -> None:
        self._is_in_head = True
        self._head_size = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_in_head:  # else it belongs to the trailer of a body, which nobody reads
            self._head_size += len(name) + len(value)
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._is_in_head, self._has_progressed = False, True
        if self._is_too_much or self.transport.is_closing():
            return
        if len(self.pipeline) >= _SENT_AHEAD:
            self._is_too_much = True
            return
        self._enter(Phase.RECEIVING)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._has_progressed = True
        if not self._is_too_much and self._cycle is not None:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._has_progressed = True
        if self._is_too_much or self._cycle is None:
            return
        if self._open.phase_of(self) is Phase.RECEIVING:
            self._enter(Phase.SERVING)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing() or self._open.phase_of(self) is None:
            return
        if self.cycle.response_complete:
            self._enter(Phase.HEAD if self._is_in_head else Phase.KEPT)

    def pause_writing(self) -> None:
        self._open.stop_reading(self, time.monotonic())
        super().pause_writing()

    def resume_writing(self) -> None:
        self._open.read_again(self)
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        """Does nothing: the list of open connections knows when the connection was used last."""

    def give_up(self, phase: Phase) -> None:
        """Close the connection, which was in the phase for too long."""
        if phase is Phase.KEPT and not self.transport.get_write_buffer_size():
            self.transport.close()
        elif phase is Phase.HEAD or (phase is Phase.FRESH and self._is_in_head):
            within = self._open.limits.head_within
            self._refuse(HeadTooSlow(f"the head of the request did not arrive within {within:g} s"))
        else:
            self._open.note(f"{phase} for too long")
            self.end()

    def end(self) -> None:
        """Close the connection at once."""
        self._open.leave(self)
        if self.flow is not None:  # else TLS is still being agreed, and has a limit of its own
            self.transport.abort()

    def is_body_over(self) -> bool:
        """Whether nothing more belongs to the request that arrived last."""
        cycle = self._cycle
        return cycle is None or not cycle.more_body

    def begin_to_close(self) -> None:
        if self._open.phase_of(self) is not None:
            self._enter(Phase.CLOSING)

    @property
    def _cycle(self) -> RequestResponseCycle | None:
        """The request that arrived last; None: there was none yet."""
        return self.cycle

    def _enter(self, phase: Phase) -> None:
        self._open.enter(self, phase, time.monotonic())

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_and_close(message: Message) -> None:
            # Once a further request has begun, the body of this one is over.
            is_last = self.cycle.scope is scope
            if message["type"] == "http.response.start" and is_last and not self.is_body_over():
                closing = (b"connection", b"close")
                message = {**message, "headers": [*message.get("headers", ()), closing]}
            await send(message)

        error = self._refusal()
        if error is None:
            await self._served_app(scope, receive, send_and_close)
        else:
            await _answer_to(error)(scope, receive, send)

    def _refusal(self) -> DomainError | None:
        """Return why the request is refused before it reaches the application."""
        limits = self._open.limits
        if self._head_size > limits.head_bytes:
            self._open.note("head too large")
            return HeadTooLarge(f"the head of the request is larger than {limits.head_bytes} bytes")
        if self.admission is Admission.REFUSED and len(self._open) > limits.most:
            self._open.note("refused")
            return TooManyConnections(
                f"{limits.most} connections are open and in use, and no more are taken: try again "
                "in a moment, or let the server take more (HEADGATE_MOST_CONNECTIONS)"
            )
        return None

    def _refuse(self, error: DomainError) -> None:
        """Answer where there is no request yet, and close the connection."""
        self._open.note(error.title)
        cycle = self._cycle
        if cycle is not None and not cycle.response_complete:
            self.end()  # in the middle of another answer
            return
        answer = _answer_to(error)
        head = [f"HTTP/1.1 {answer.status_code} {error.title}".encode()]
        head += [name + b": " + value for name, value in answer.raw_headers]
        self.transport.write(b"\r\n".join([*head, b"", bytes(answer.body)]))
        self.transport.close(has_more=True)


class LingeringTransport(asyncio.Transport):
    """A transport that, where the client still sends, closes in two steps: it says that nothing
    more will come, and goes on to read for a moment, so that the client sees the answer.
    """

    def __init__(self, inner: asyncio.Transport, connection: GuardedConnection) -> None:
        super().__init__()
        self._inner = inner
        self._connection = connection
        self._lingers = False
        self._thrown_away = 0
        self._end: asyncio.TimerHandle | None = None

    @property
    def inner(self) -> asyncio.Transport:
        return self._inner

    def close(self, *, has_more: bool = False) -> None:
        if self._lingers or self._inner.is_closing():
            return
        self._connection.begin_to_close()
        if self._connection.is_body_over() and not has_more:
            self._inner.close()
            return
        self._lingers = True
        self._end = asyncio.get_running_loop().call_later(_LINGER_SECONDS, self._inner.close)
        if self._inner.can_write_eof():
            self._inner.write_eof()
        self._inner.resume_reading()

    def takes_away(self, data: bytes) -> bool:
        """Return whether the data is thrown away, because the connection is being closed."""
        if self._lingers:
            self._thrown_away += len(data)
            if self._thrown_away > _LINGER_BYTES:
                self._inner.close()
        return self._lingers

    def is_lost(self) -> None:
        if self._end is not None:
            self._end.cancel()

    def abort(self) -> None:
        self._inner.abort()

    def is_closing(self) -> bool:
        return self._lingers or self._inner.is_closing()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._lingers:
            self._inner.write(data)

    def pause_reading(self) -> None:
        if not self._lingers:
            self._inner.pause_reading()

    def resume_reading(self) -> None:
        if not self._inner.is_closing():
            self._inner.resume_reading()

    def get_write_buffer_size(self) -> int:
        return self._inner.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._inner.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._inner.set_protocol(protocol)


def _answer_to(error: DomainError) -> Response:
    answer = problems.without_route(error)
    answer.headers.update({**ON_EVERY_ANSWER, POLICY: POLICY_OF_DATA, "Connection": "close"})
    return answer
