"""The HTTP side of a reader process: it answers plain reads, and hands over the rest.

A reader accepts connections from the server's listening socket. Each request is looked at before
anything is done with it. If a reader cannot answer it, the connection goes to the server's own
process, with the bytes that have arrived, and stays there: so nobody waits in two queues, and no
request is copied from one process to another. Only a connection with TLS cannot leave the process
that has its keys: there the reader passes the bytes on.
"""

import asyncio
import os
import socket
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from jobmanager.api.http_connections import GuardedConnection, HttpServer
from jobmanager.core.access.reader_routes import is_for_readers
from jobmanager.core.open_connections import ConnectionLimits, OpenConnections, Phase
from jobmanager.core.request_head import end_of_head, path_of_plain_read

_AHEAD_BYTES = 64 * 1024
"""Of requests that a client sends before it has an answer; then the reader stops reading."""
_UNSENT_PAUSE = 0.01
_LINGER_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class ClientOfConnection:
    """What the server's process cannot see of a connection that is handed over."""

    client: tuple[str, int] | None
    server: tuple[str, int | None] | None
    scheme: str


HandOver = Callable[[ClientOfConnection, bytes, int], None]
"""Takes the open file of a connection, and the bytes that have arrived and were not answered."""


class ReaderServer(HttpServer):
    """The HTTP server of a reader process."""

    def __init__(
        self, config: uvicorn.Config, limits: ConnectionLimits | None, hand_over: HandOver
    ) -> None:
        super().__init__(config, limits)
        self._hand_over = hand_over

    def make_connection(self) -> "ReaderConnection":
        return ReaderConnection(
            self.config, self.server_state, self.open_connections, self._hand_over
        )


class ReaderConnection(GuardedConnection):
    """Gives the parser one complete head at a time, and only that of a plain read."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        connections: OpenConnections[GuardedConnection],
        hand_over: HandOver,
    ) -> None:
        super().__init__(config, server_state, connections)
        self._give = hand_over
        self._held = bytearray()
        """Bytes that the parser has not got."""
        self._looked_at = 0
        self._is_busy = False
        """A request is being answered, or the connection is being handed over."""
        self._relay: Relay | None = None

    def data_received(self, data: bytes) -> None:
        if self._relay is not None:
            self._relay.send(data)
            return
        if self.transport.takes_away(data):
            return
        self._held += data
        if not self._is_busy:
            self._take()
        elif len(self._held) > _AHEAD_BYTES:
            self.transport.pause_reading()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._is_busy = False
        if self._held:
            self.loop.call_soon(self._go_on)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._relay is not None:
            self._relay.end()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        if self._relay is None:
            super().pause_writing()
        else:
            self._relay.pause()

    def resume_writing(self) -> None:
        if self._relay is None:
            super().resume_writing()
        else:
            self._relay.resume()

    def _go_on(self) -> None:
        if self._held and not self._is_busy and not self.transport.is_closing():
            self._take()

    def _take(self) -> None:
        end = end_of_head(self._held, self._looked_at)
        if end is None:
            self._wait_for_head()
            return
        path = path_of_plain_read(bytes(self._held[:end]))
        if path is None or not is_for_readers(path):
            self._hand_over()
        else:
            self._parse(end)

    def _wait_for_head(self) -> None:
        self._looked_at = len(self._held)
        if self._looked_at > self._open.limits.head_bytes:
            self._parse(self._looked_at)  # which refuses it
            return
        self._is_in_head = True
        if self._open.phase_of(self) is Phase.KEPT:
            self._enter(Phase.HEAD)

    def _parse(self, length: int) -> None:
        self._is_busy = True
        self._looked_at = 0
        taken = bytes(self._held[:length])
        del self._held[:length]
        super().data_received(taken)

    def _hand_over(self) -> None:
        """Hand the connection over, once the client has been sent all earlier answers."""
        self._is_busy = True
        if self.transport.is_closing():
            return
        if self.transport.get_write_buffer_size():
            self.loop.call_later(_UNSENT_PAUSE, self._hand_over)
            return
        told = ClientOfConnection(self.client, self.server, self.scheme or "http")
        first = bytes(self._held)
        self._held.clear()
        self._open.leave(self)
        if self.scheme == "https":
            here, there = socket.socketpair()
            self._relay = Relay(self.transport.inner, here)
            self._give(told, first, there.detach())
            return
        plain: Any = self.transport.get_extra_info("socket")
        file = os.dup(plain.fileno())
        self.transport.abort()  # closes only the file of this process
        self._give(told, first, file)


class Relay(asyncio.Protocol):
    """Passes the bytes of a connection with TLS on to the server's process, and its answers
    back.
    """

    def __init__(self, client: asyncio.Transport, end: socket.socket) -> None:
        self._client = client
        self._server: asyncio.Transport | None = None
        self._unsent = bytearray()
        self._is_over = False
        loop = asyncio.get_running_loop()
        self._connecting = loop.create_task(loop.connect_accepted_socket(lambda: self, end))

    def send(self, data: bytes) -> None:
        if self._server is None:
            self._unsent += data
        else:
            self._server.write(data)

    def end(self) -> None:
        self._is_over = True
        if self._server is not None:
            self._server.close()

    def pause(self) -> None:
        if self._server is not None and not self._server.is_closing():
            self._server.pause_reading()

    def resume(self) -> None:
        if self._server is not None and not self._server.is_closing():
            self._server.resume_reading()

    def connection_made(self, transport: Any) -> None:
        self._server = transport
        if self._unsent:
            transport.write(bytes(self._unsent))
            self._unsent.clear()
        if self._is_over:
            transport.close()

    def data_received(self, data: bytes) -> None:
        self._client.write(data)

    def eof_received(self) -> bool:
        """The server has answered for the last time. The client may still be sending, and is to
        see the answer before the connection is closed.
        """
        asyncio.get_running_loop().call_later(_LINGER_SECONDS, self._client.close)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._client.close()

    def pause_writing(self) -> None:
        if not self._client.is_closing():
            self._client.pause_reading()

    def resume_writing(self) -> None:
        if not self._client.is_closing():
            self._client.resume_reading()


class HandedConnection(GuardedConnection):
    """A connection that a reader has handed over to the server's own process."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        connections: OpenConnections[GuardedConnection],
        told: ClientOfConnection,
        first: bytes,
    ) -> None:
        super().__init__(config, server_state, connections)
        self._told = told
        self._first = first

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.client, self.server = self._told.client, self._told.server
        self.scheme = "https" if self._told.scheme == "https" else "http"
        if not transport.is_closing():
            self.data_received(self._first)  # before anything that the client sends from now on


async def adopt(server: HttpServer, told: ClientOfConnection, first: bytes, file: int) -> None:
    """Serve a connection that a reader has handed over."""
    given = socket.socket(fileno=file)
    given.setblocking(False)
    if server.open_connections.is_full:
        server.open_connections.note("dropped")
        given.close()
        return

    def made() -> GuardedConnection:
        return server.admit(
            HandedConnection(
                server.config, server.server_state, server.open_connections, told, first
            )
        )

    await asyncio.get_running_loop().connect_accepted_socket(made, given)


def told_of(client: ClientOfConnection) -> dict[str, Any]:
    return asdict(client)


def client_in(told: dict[str, Any]) -> ClientOfConnection:
    client, server = told["client"], told["server"]
    return ClientOfConnection(
        tuple(client) if client else None, tuple(server) if server else None, told["scheme"]
    )
