"""The addresses of the JobManagers: from their answers, and from a file.

A runner starts with the file, and returns to it when none of the addresses it was told answers:
a server that starts again writes the file again.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock


class AddressFile:
    """A file `{"urls": ["http://127.0.0.1:8081"]}`, the learned addresses, and the one in use."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._learned: list[str] = []
        self._in_file: list[str] = []
        self._turn = 0
        self._lock = Lock()

    def current(self) -> str:
        """The address to try next. Raises OSError or ValueError if there is none."""
        with self._lock:
            if not self._urls():
                self._in_file = self._read()
            urls = self._urls()
            return urls[self._turn % len(urls)]

    def learn(self, urls: Sequence[str]) -> None:
        """Takes the addresses of all JobManagers; the first is used from now on."""
        found = [url.rstrip("/") for url in urls]
        with self._lock:
            if found and found != self._learned:
                self._learned = found
                self._turn = 0

    def failed(self, url: str | None = None) -> None:
        """Moves on to the next address, because this one did not answer. If several threads fail
        with the same address at the same time, only the first moves on.
        """
        with self._lock:
            urls = self._urls()
            if url is not None and urls and urls[self._turn % len(urls)] != url:
                return
            with suppress(OSError, ValueError):  # the file is being written: use what is known
                self._in_file = self._read()
            self._turn += 1

    def _urls(self) -> list[str]:
        return list(dict.fromkeys([*self._learned, *self._in_file]))

    def _read(self) -> list[str]:
        urls = json.loads(self._path.read_text(encoding="utf-8"))["urls"]
        if not isinstance(urls, list) or not urls:
            raise ValueError(f"{self._path} names no urls")
        return [str(url).rstrip("/") for url in urls]
