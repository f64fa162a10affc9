"""Where the jars of connector packages come from: a Maven repository, or a directory."""

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import httpx

from jobmanager.core.connector_packages import Coordinates

_TIMEOUT = httpx.Timeout(60.0, connect=20.0)
_CHUNK = 1024 * 1024
OnBytes = Callable[[int, int | None], None]
"""Told how many bytes there are so far, and how many there will be, if that is known."""


class JarNotPublished(Exception):
    """The source does not have the jar."""


class JarNotFetched(Exception):
    """The source could not be asked, or what it sent is damaged; the message says which."""


class JarSource(Protocol):
    def fetch(self, jar: Coordinates, to: Path, on_bytes: OnBytes) -> None:
        """Writes the jar to a file. Raises `JarNotPublished`, `JarNotFetched`."""
        ...


class JarRepository:
    """A Maven repository. Proxies and credentials come from the environment and from `.netrc`."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    def fetch(self, jar: Coordinates, to: Path, on_bytes: OnBytes) -> None:
        url = f"{self._url}/{jar.path}"
        try:
            with httpx.Client(timeout=_TIMEOUT, follow_redirects=True) as http:
                published = http.get(f"{url}.sha1")
                self._download(http, url, jar, to, on_bytes)
        except httpx.HTTPError as error:
            raise JarNotFetched(f"{url}: {type(error).__name__}: {error}") from error
        sums = published.text.split() if published.is_success else []
        if sums and sums[0].lower() != _digest(to, "sha1"):
            raise JarNotFetched(f"{url}: the file does not have the published checksum {sums[0]}")

    def _download(
        self, http: httpx.Client, url: str, jar: Coordinates, to: Path, on_bytes: OnBytes
    ) -> None:
        with http.stream("GET", url) as answer:
            if answer.status_code == httpx.codes.NOT_FOUND:
                raise JarNotPublished(f"{jar} is not in {self._url}")
            if not answer.is_success:
                raise JarNotFetched(f"{url}: the repository answered {answer.status_code}")
            length = answer.headers.get("content-length")
            expected = int(length) if length and length.isdigit() else None
            with to.open("wb") as file:
                for part in answer.iter_bytes(_CHUNK):
                    file.write(part)
                    on_bytes(file.tell(), expected)


class JarDirectory:
    """A directory with jars, for a site without a network: plain files, or laid out as a Maven
    repository is.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def fetch(self, jar: Coordinates, to: Path, on_bytes: OnBytes) -> None:
        for found in (self._directory / jar.file_name, self._directory / jar.path):
            if found.is_file():
                try:
                    shutil.copyfile(found, to)
                except OSError as error:
                    raise JarNotFetched(f"{found} cannot be copied: {error}") from error
                size = to.stat().st_size
                on_bytes(size, size)
                return
        raise JarNotPublished(f"{jar.file_name} is not in {self._directory}")


def sha256_of(path: Path) -> str:
    return _digest(path, "sha256")


def _digest(path: Path, algorithm: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()
