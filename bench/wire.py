"""A minimal HTTP client for simulated runners: one call at a time on a persistent connection.

A client library would use more CPU than the server that is measured.
"""

import asyncio
import contextlib
import json
from collections.abc import Sequence
from typing import Any

from jobmanager.protocol.messages import PROTOCOL_HEADER, PROTOCOL_VERSION


class Connection:
    def __init__(self, address: Sequence[str], secret: str | None = None) -> None:
        self._host, self._port = address[0], int(address[1])
        self._authorisation = f"Authorization: Bearer {secret}\r\n" if secret else ""
        self.attempt_token: str | None = None
        """Of the attempt that is spoken of, once there is one."""
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._turn = asyncio.Lock()

    async def call(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Status and answer; 0: the connection broke."""
        content = b"" if body is None else json.dumps(body).encode()
        token = f"Headgate-Attempt-Token: {self.attempt_token}\r\n" if self.attempt_token else ""
        request = (
            f"{method} {path} HTTP/1.1\r\nHost: {self._host}\r\n{self._authorisation}{token}"
            f"{PROTOCOL_HEADER}: {PROTOCOL_VERSION}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        async with self._turn:
            try:
                return await self._exchange(request.encode() + content)
            except (OSError, EOFError, ValueError):
                self.close()
                return 0, None

    def close(self) -> None:
        if self._streams is not None:
            with contextlib.suppress(OSError):
                self._streams[1].close()
            self._streams = None

    async def _exchange(self, request: bytes) -> tuple[int, Any]:
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port)
        reader, writer = self._streams
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = int(head.partition("content-length:")[2].split("\r\n")[0])
        content = await reader.readexactly(length)
        return int(head.split()[1]), json.loads(content) if content else None
