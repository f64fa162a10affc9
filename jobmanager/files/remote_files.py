"""Files in a store that fsspec reaches: each one is uploaded once, and fetched to be used.

An object store has no links, no rename and no sync: what was uploaded without an error is
there. Nothing is believed all the same: sizes are looked at after the uploads, and bytes
when they are fetched.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import fsspec
from fsspec.core import url_to_fs

from jobmanager.core.snapshots.manifest import SnapshotFile
from jobmanager.core.snapshots.storage_uri import UnsupportedStorage, scheme_of
from jobmanager.files import durable
from jobmanager.files.snapshot_files import DamagedFile, Kept, StoreFailed, difference

_CHUNK = 4 << 20
_AT_ONCE = 8
_MOST_WORDS = 500
_EXTRAS = {"s3": "s3", "s3a": "s3"}
"""Scheme to the extra of ours that brings its driver."""


class RemoteFiles:
    links = False

    def __init__(self, uri: str) -> None:
        """Raises `UnsupportedStorage` where nothing on this machine can reach it."""
        self.uri = uri.rstrip("/")
        require_driver(self.uri)
        with _asking(self.uri):
            # Two programs change the store: neither may believe what it saw earlier.
            self._store, root = url_to_fs(self.uri, use_listings_cache=False)
        self._root = str(root).rstrip("/")

    def found(self, below: str = "") -> Mapping[str, int]:
        with _asking(self._uri(below)):
            try:
                entries = self._store.find(self._path(below), detail=True)
            except FileNotFoundError:
                return {}
        inside = f"{self._root}/"
        return {
            str(path).removeprefix(inside): int(entry["size"])
            for path, entry in entries.items()
            if entry.get("type") == "file" and entry.get("size") is not None
        }

    def names(self, below: str = "") -> Set[str]:
        with _asking(self._uri(below)):
            try:
                paths = self._store.ls(self._path(below), detail=False)
            except FileNotFoundError:
                return set()
        return {str(path).rstrip("/").rpartition("/")[2] for path in paths}

    def read(self, location: str) -> bytes:
        with _asking(self._uri(location)):
            return bytes(self._store.cat_file(self._path(location)))

    def digest(self, location: str) -> Kept:
        return self._copy(location, lambda chunk: None)

    def is_same(self, source: Path, location: str) -> bool:
        return False

    def keep(self, source: Path, location: str) -> Kept:
        with source.open("rb") as reader, _asking(self._uri(location), writes=True):
            writer = self._store.open(self._path(location), "wb")
            try:
                kept = _pass_on(reader, writer.write)
                writer.close()
            except BaseException:
                _abandon(writer)
                raise
        return kept

    def settle(self, files: Iterable[SnapshotFile]) -> None:
        expected = {file.location: file.bytes for file in files}
        there: dict[str, int] = {}
        for top in {location.partition("/")[0] for location in expected}:
            there.update(self.found(top))
        for location, size in expected.items():
            if there.get(location) != size:
                said = f"has {there[location]} bytes" if location in there else "is not there"
                raise StoreFailed(f"{self._uri(location)} {said} after {size} were uploaded")

    def write(self, location: str, text: str) -> None:
        try:
            with _asking(self._uri(location), writes=True):
                self._store.pipe_file(self._path(location), text.encode())
        except OSError:
            with suppress(OSError):  # some stores have the half of it now
                self.delete([location])
            raise

    def fetch(self, file: SnapshotFile, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with target.open("wb") as writer:
                kept = self._copy(file.location, writer.write)
        except FileNotFoundError:
            raise DamagedFile(f"{file.location} is missing") from None
        if fault := difference(kept, file):
            raise DamagedFile(f"{file.location} {fault}")
        durable.sync(target)

    def delete(self, locations: Iterable[str]) -> None:
        def delete_one(location: str) -> None:
            with _asking(self._uri(location)), suppress(FileNotFoundError):
                self._store.rm_file(self._path(location))

        with ThreadPoolExecutor(_AT_ONCE) as threads:
            list(threads.map(delete_one, locations))

    def remove(self, below: str = "") -> None:
        self.delete(self.found(below))

    def _copy(self, location: str, take: Callable[[bytes], object]) -> Kept:
        with (
            _asking(self._uri(location)),
            self._store.open(self._path(location), "rb", block_size=_CHUNK) as reader,
        ):
            return _pass_on(reader, take)

    def _path(self, location: str) -> str:
        return f"{self._root}/{location}" if location else self._root

    def _uri(self, location: str) -> str:
        return f"{self.uri}/{location}" if location else self.uri


def require_driver(uri: str) -> None:
    """Raises `UnsupportedStorage`, with what to install. Asks nobody outside of this process."""
    scheme = scheme_of(uri)
    try:
        fsspec.get_filesystem_class(scheme)
    except ValueError:
        raise UnsupportedStorage(
            f"{uri!r} cannot be used: fsspec knows no {scheme}: storage"
        ) from None
    except ImportError as error:
        package = f"pip install headgate[{_EXTRAS[scheme]}]" if scheme in _EXTRAS else str(error)
        raise UnsupportedStorage(
            f"{uri!r} cannot be used: the driver of {scheme}: is not installed: {package}"
        ) from None


@contextmanager
def _asking(uri: str, *, writes: bool = False) -> Iterator[None]:
    """Drivers raise whatever they like: here it becomes one kind, that names the place.

    Whoever reads is told that a file is not there; whoever writes, that the bucket is not.
    """
    try:
        yield
    except StoreFailed:
        raise
    except Exception as error:
        if isinstance(error, FileNotFoundError) and not writes:
            raise
        said = " ".join(str(error).split())[:_MOST_WORDS]
        raise StoreFailed(f"{uri}: {type(error).__name__}: {said}") from error


def _pass_on(reader: IO[bytes], take: Callable[[bytes], object]) -> Kept:
    digest, size = hashlib.sha256(), 0
    while chunk := reader.read(_CHUNK):
        digest.update(chunk)
        take(chunk)
        size += len(chunk)
    return Kept(size, digest.hexdigest())


def _abandon(writer: Any) -> None:
    """Closing it would give the half of a file its name."""
    with suppress(Exception):
        writer.discard()
    with suppress(Exception):
        writer.closed = True
