"""Where the JobManagers are. The file is read again whenever one cannot be reached."""

import json
from contextlib import suppress
from pathlib import Path


class AddressFile:
    """A file `{"urls": ["http://127.0.0.1:8081"]}`, and the one of them in use."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._urls: list[str] = []
        self._turn = 0

    def current(self) -> str:
        """The address to try next. Raises OSError or ValueError if the file cannot be read."""
        if not self._urls:
            self._urls = self._read()
        return self._urls[self._turn % len(self._urls)]

    def failed(self) -> None:
        """The current one cannot be reached: a restarted JobManager may be elsewhere."""
        with suppress(OSError, ValueError):  # it is being written: what was known will do
            self._urls = self._read()
        self._turn += 1

    def _read(self) -> list[str]:
        urls = json.loads(self._path.read_text(encoding="utf-8"))["urls"]
        if not isinstance(urls, list) or not urls:
            raise ValueError(f"{self._path} names no urls")
        return [str(url).rstrip("/") for url in urls]
