"""Storage in a store that fsspec reaches: a file is uploaded once, and fetched when it is used.

An object store has no links, no rename and no sync: a file that was uploaded without an error
exists. It is checked all the same: sizes after uploads, and bytes when files are fetched. Locks are
built on conditional writes (`created_locks`).
"""

import errno
import hashlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from copy import copy
from datetime import timedelta
from pathlib import Path
from typing import IO, Any, Self

import fsspec
from fsspec.core import url_to_fs
from fsspec.spec import AbstractFileSystem

from jobmanager.core.snapshots.manifest import SnapshotFile
from jobmanager.core.snapshots.storage_uri import UnsupportedStorage, scheme_of
from jobmanager.files import created_locks, durable
from jobmanager.files.storage_port import (
    BREAK_WAIT,
    LOCK_WAIT,
    DamagedFile,
    Digest,
    MissingFile,
    StoreFailed,
    UnsupportedOperation,
    difference,
)

_CHUNK = 4 << 20
_AT_ONCE = 8
_MOST_WORDS = 500
_TAKEN_WORDS = ("PreconditionFailed", "pre-conditions", "ConditionalRequestConflict")
_EXTRAS = {"s3": "s3", "s3a": "s3"}
"""The extra of this package that installs the driver, by scheme."""


class FsspecStorage:
    links = False
    renames = False

    def __init__(self, uri: str) -> None:
        """Raises `UnsupportedStorage` if no driver on this machine can reach it."""
        self.uri = uri.rstrip("/")
        require_driver(self.uri)
        with _asking(self.uri):
            # Two programs change the store, so listings must not be cached.
            self._store, root = url_to_fs(self.uri, use_listings_cache=False)
        self._root = str(root).rstrip("/")

    def inside(self, directory: str) -> Self:
        other = copy(self)
        other.uri, other._root = self._uri(directory), self._path(directory)
        return other

    def list_files(self, below: str = "") -> Mapping[str, int]:
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

    def list_names(self, below: str = "") -> Set[str]:
        with _asking(self._uri(below)):
            try:
                paths = self._store.ls(self._path(below), detail=False)
            except FileNotFoundError:
                return set()
        return {str(path).rstrip("/").rpartition("/")[2] for path in paths}

    def read(self, location: str) -> bytes:
        with _asking(self._uri(location)):
            return bytes(self._store.cat_file(self._path(location)))

    def digest(self, location: str) -> Digest:
        return self._copy(location, lambda chunk: None)

    def is_same(self, source: Path, location: str) -> bool:
        return False

    def keep(self, source: Path, location: str) -> Digest:
        with _asking(self._uri(location), writes=True):
            return _uploaded(source, self._store.open(self._path(location), "wb"))

    def keep_new(self, source: Path, location: str) -> Digest | None:
        with _asking(self._uri(location), writes=True):
            try:
                return _uploaded(source, self._new_file(self._path(location)))
            except OSError as error:
                if isinstance(error, FileExistsError) or _is_taken(error):
                    return None
                raise

    def _new_file(self, path: str) -> Any:
        """Open a file that is created when it is closed, and only if it does not exist then."""
        with suppress(ValueError, TypeError, NotImplementedError):  # drivers without such a mode
            return self._store.open(path, "xb")
        if self._store.exists(path):
            raise FileExistsError(path)
        return self._store.open(path, "wb")

    def make_durable(self, files: Iterable[SnapshotFile]) -> None:
        expected = {file.location: file.bytes for file in files}
        there: dict[str, int] = {}
        for top in {location.partition("/")[0] for location in expected}:
            there.update(self.list_files(top))
        for location, size in expected.items():
            if there.get(location) != size:
                said = f"has {there[location]} bytes" if location in there else "is missing"
                raise StoreFailed(f"{self._uri(location)} {said} after {size} were uploaded")

    def write(self, location: str, content: str | bytes) -> None:
        try:
            with _asking(self._uri(location), writes=True):
                self._store.pipe_file(self._path(location), _as_bytes(content))
        except OSError:
            with suppress(OSError):  # some stores now have a part of the file
                self.delete([location])
            raise

    def create(self, location: str, content: str | bytes) -> bool:
        if not self._has_conditional_writes():
            raise UnsupportedOperation(
                f"{self._uri(location)} cannot be created: the driver of this store has no "
                "conditional write"
            )
        with _asking(self._uri(location), writes=True):
            try:
                self._store.pipe_file(self._path(location), _as_bytes(content), mode="create")
            except FileExistsError:
                return False
            except OSError as error:
                if _is_taken(error):
                    return False
                raise
        return True

    def rename(self, before: str, after: str) -> None:
        raise UnsupportedOperation(
            f"{self._uri(before)} cannot be renamed: a store elsewhere has no rename"
        )

    def fetch(self, file: SnapshotFile, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with target.open("wb") as writer:
                kept = self._copy(file.location, writer.write)
        except FileNotFoundError:
            raise MissingFile(f"{file.location} is missing") from None
        if fault := difference(kept, file):
            raise DamagedFile(f"{file.location} {fault}")
        durable.sync(target)

    def delete(self, locations: Iterable[str]) -> None:
        def delete_one(location: str) -> None:
            with _asking(self._uri(location)), suppress(FileNotFoundError):
                self._store.rm_file(self._path(location))

        with ThreadPoolExecutor(_AT_ONCE) as threads:
            list(threads.map(delete_one, locations))

    def delete_directory(self, below: str = "") -> None:
        self.delete(self.list_files(below))

    def lock(self, location: str, wait: timedelta = LOCK_WAIT) -> AbstractContextManager[None]:
        return created_locks.held(self, location, wait)

    def break_lock(self, location: str, wait: timedelta = BREAK_WAIT) -> None:
        created_locks.break_lock(self, location, wait)

    def _has_conditional_writes(self) -> bool:
        """Whether the driver has atomic conditional writes: fsspec's own `pipe_file` checks first
        and then writes, so two writers could both succeed.
        """
        driver = type(self._store)
        if getattr(driver, "async_impl", False):
            return "mode" in inspect.signature(driver._pipe_file).parameters
        return driver.pipe_file is not AbstractFileSystem.pipe_file

    def _copy(self, location: str, take: Callable[[bytes], object]) -> Digest:
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
    """Raise `UnsupportedStorage`, with what to install, if the driver is missing."""
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
    """Turn any exception of a driver into one kind of error that names the location.

    For a read it says that the file does not exist; for a write, that the bucket does not.
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


def _is_taken(error: OSError) -> bool:
    """Whether a store reported that the file exists, for which S3 has two error codes."""
    said = str(error)
    return error.errno == errno.EEXIST or any(word in said for word in _TAKEN_WORDS)


def _as_bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content


def _pass_on(reader: IO[bytes], take: Callable[[bytes], object]) -> Digest:
    digest, size = hashlib.sha256(), 0
    while chunk := reader.read(_CHUNK):
        digest.update(chunk)
        take(chunk)
        size += len(chunk)
    return Digest(size, digest.hexdigest())


def _uploaded(source: Path, writer: Any) -> Digest:
    try:
        with source.open("rb") as reader:
            kept = _pass_on(reader, writer.write)
        writer.close()
    except BaseException:
        _abandon(writer)
        raise
    return kept


def _abandon(writer: Any) -> None:
    """Abandon an upload: closing the writer would publish a part of the file under its name."""
    with suppress(Exception):
        writer.discard()
    with suppress(Exception):
        writer.closed = True
