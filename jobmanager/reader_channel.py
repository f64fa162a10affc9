"""What a server and its reader processes tell each other, and the connections they hand over.

A channel is a pair of connected sockets. Each message is a JSON object, some bytes, and at most one
open file: the connection of a client that is handed over. It closes when either process ends,
however it ends.
"""

import asyncio
import contextlib
import json
import os
import socket
import struct
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_LENGTHS = struct.Struct(">II")
_AT_ONCE = 256 * 1024
_MOST_WAITING = 1000
"""Messages that the other process has not taken. More connections than that are closed."""


@dataclass(frozen=True, slots=True)
class ChannelMessage:
    head: Mapping[str, Any]
    content: bytes = b""
    file: int | None = None
    """An open file, which the receiver has to close."""


class ReaderChannel:
    """One end. `on_message` is called for each message, `on_closed` once, when the other process
    has ended or closed its end.
    """

    def __init__(
        self,
        end: socket.socket,
        on_message: Callable[[ChannelMessage], None],
        on_closed: Callable[[], None],
    ) -> None:
        self._socket = end
        self._on_message = on_message
        self._on_closed = on_closed
        self._waiting: deque[tuple[bytes, int | None]] = deque()
        self._received = bytearray()
        self._files: deque[int] = deque()
        self._is_open = False

    def open(self) -> None:
        self._socket.setblocking(False)
        self._is_open = True
        asyncio.get_running_loop().add_reader(self._socket, self._read)

    def send(self, head: Mapping[str, Any], content: bytes = b"", file: int | None = None) -> bool:
        """Send a message; the file is closed here. Returns whether the message is under way."""
        if not self._is_open or len(self._waiting) >= _MOST_WAITING:
            _close_file(file)
            return False
        told = json.dumps({**head, "has_file": file is not None}).encode()
        text = b"".join((_LENGTHS.pack(len(told), len(content)), told, content))
        self._waiting.append((text, file))
        if len(self._waiting) == 1:
            self._write()
        return True

    def close(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._socket)
        loop.remove_writer(self._socket)
        self._socket.close()
        for file in (*self._files, *(one for _, one in self._waiting)):
            _close_file(file)
        self._files.clear()
        self._waiting.clear()
        self._on_closed()

    def _write(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                text, file = self._waiting[0]
                sent = socket.send_fds(self._socket, [text], [] if file is None else [file])
                _close_file(file)  # it belongs to the other process with the first byte
                self._waiting.popleft()
                if sent < len(text):
                    self._waiting.appendleft((text[sent:], None))
        except BlockingIOError:
            loop.add_writer(self._socket, self._write)
            return
        except OSError:
            self.close()
            return
        loop.remove_writer(self._socket)

    def _read(self) -> None:
        try:
            data, files, _, _ = socket.recv_fds(self._socket, _AT_ONCE, 4)
        except BlockingIOError:
            return
        except OSError:
            data, files = b"", []
        self._files.extend(files)
        self._received += data
        while self._is_open and (message := self._next()) is not None:
            self._on_message(message)
        if not data:
            self.close()

    def _next(self) -> ChannelMessage | None:
        """Return the next message; None: it has not arrived completely."""
        if len(self._received) < _LENGTHS.size:
            return None
        of_head, of_content = _LENGTHS.unpack_from(self._received)
        content_at = _LENGTHS.size + of_head
        end = content_at + of_content
        if len(self._received) < end:
            return None
        head = json.loads(self._received[_LENGTHS.size : content_at])
        content = bytes(self._received[content_at:end])
        del self._received[:end]
        file = self._files.popleft() if head.get("has_file") else None
        return ChannelMessage(head, content, file)


def _close_file(file: int | None) -> None:
    if file is not None:
        with contextlib.suppress(OSError):
            os.close(file)
