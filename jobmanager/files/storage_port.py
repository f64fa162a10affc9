"""The storage port: operations on storage below one directory or URI, of any kind.

Both programs access what they share only through these operations, so another kind of storage is
another implementation of them (`LocalStorage` on a file system, `FsspecStorage` for what fsspec
reaches), and has to pass `tests/unit/files/test_storage_port.py`. A file is identified by its
location, a path relative to the storage's URI; `core.snapshots.layout` builds every location.

A written file appears under its name completely or not at all, and survives a crash once the
operation has returned. The manifest of a set of files is written last: a directory without a
manifest does not count. Every operation may raise `OSError`; with fsspec that is a `StoreFailed`.

Spark's own working directories are not behind the port: Spark reads and writes them by path, so
they have to be on a file system, and only `keep` and `fetch` move files between the two.
"""

from collections.abc import Iterable, Mapping, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Protocol, Self

from jobmanager.core.snapshots.manifest import SnapshotFile
from jobmanager.files.locks import LockUnavailable as LockUnavailable

LOCK_WAIT = timedelta(minutes=2)
BREAK_WAIT = timedelta(seconds=10)


class StoreFailed(OSError):
    """An operation of a store failed. The message contains the store's own error."""


class UnsupportedOperation(OSError):
    """Storage of this kind has no such operation."""


class DamagedFile(Exception):
    """A file is missing, or is not what its manifest says."""


class MissingFile(DamagedFile):
    """A file that a manifest names does not exist."""


@dataclass(frozen=True, slots=True)
class Digest:
    """Size and checksum of a file."""

    bytes: int
    sha256: str


class Storage(Protocol):
    uri: str
    """The storage's URI, without a slash at its end."""
    links: bool
    """Whether a kept file is a link, which takes no further space."""
    renames: bool
    """Whether `rename` can be used."""

    def inside(self, directory: str) -> Self:
        """Return the storage below a directory of this storage, without accessing it."""

    # ── looking ──

    def list_files(self, below: str = "") -> Mapping[str, int]:
        """Return every file below a directory, at any depth: its location and its size.

        Empty if there is no such directory. Files that were written before the call are included.
        """

    def list_names(self, below: str = "") -> Set[str]:
        """Return the names of the files and directories directly in a directory."""

    def read(self, location: str) -> bytes:
        """Read a whole file. Raises `FileNotFoundError`."""

    def digest(self, location: str) -> Digest:
        """Compute size and checksum of a file, by reading it. Raises `FileNotFoundError`."""

    def is_same(self, source: Path, location: str) -> bool:
        """Whether both are known to be the same file, without comparing bytes."""

    # ── writing ──

    def write(self, location: str, content: str | bytes) -> None:
        """Write or replace a file atomically and durably; readers see the old or the new file.

        It may be repeated. If it raises, the old file is unchanged, or there is none.
        """

    def create(self, location: str, content: str | bytes) -> bool:
        """Write a file atomically and durably if it does not exist: the conditional write.

        False: the file exists, and was left unchanged. Of many simultaneous calls for one location,
        exactly one returns True; if that caller repeats the call, it gets False, so a caller that
        must know whether its own write succeeded reads the file. Raises `UnsupportedOperation` if
        the storage has no conditional write.
        """

    def keep(self, source: Path, location: str) -> Digest:
        """Store the local file `source` at `location`: by a link where possible, otherwise by a
        copy. An existing file is replaced atomically, so it may be repeated.

        The file stays as it is when `source` is replaced or deleted; `source` is never changed
        in place (Spark replaces its files). Its name is durable only after `make_durable`.
        """

    def keep_new(self, source: Path, location: str) -> Digest | None:
        """Store the local file `source` as `keep` does, if `location` does not exist; None: it
        exists, and was left unchanged.

        This is a conditional write if the storage has one. Otherwise the storage checks first and
        then writes, and two callers may both write: so `location` must contain a content hash.
        """

    def make_durable(self, files: Iterable[SnapshotFile]) -> None:
        """Make kept files durable: on return, they survive a crash under their names. Raises
        `OSError` if a file is missing, or has another size. May be repeated.
        """

    def rename(self, before: str, after: str) -> None:
        """Rename a file or a directory, with its content, atomically and durably.

        Raises `FileExistsError` if the new name exists, and `FileNotFoundError` if the old name
        does not, so a repetition after a crash can be told from a first try. Callers that may
        rename to the same name at the same time have to hold a lock. Raises `UnsupportedOperation`
        if `renames` is False: there a directory counts by its manifest, which is written last.
        """

    def fetch(self, file: SnapshotFile, target: Path) -> None:
        """Make `target` a local link or copy of a file, for reading only.

        Raises `MissingFile` or another `DamagedFile`: the checksum of a copy is verified, of a link
        only the size.
        """

    # ── deleting ──

    def delete(self, locations: Iterable[str]) -> None:
        """Delete files. Files that do not exist count as deleted."""

    def delete_directory(self, below: str = "") -> None:
        """Delete a directory with its content, in any order and not atomically."""

    # ── excluding others ──

    def lock(self, location: str, wait: timedelta = LOCK_WAIT) -> AbstractContextManager[None]:
        """Hold the lock called `location` inside the block, exclusively among processes and
        threads; it is not reentrant. Raises `LockUnavailable` after `wait`.

        The lock of a process that died is free: at once on a file system, where the operating
        system releases it; elsewhere after the holder has given no sign of life for a while.
        """

    def break_lock(self, location: str, wait: timedelta = BREAK_WAIT) -> None:
        """Make the lock available, even if its holder does not release it within `wait`: the holder
        may be frozen on a machine out of reach. The caller must have made sure that the holder can
        do no harm, since it still believes that it has the lock.
        """


def damage(files: Storage, file: SnapshotFile) -> str | None:
    """Return what is wrong with a file, to be shown after its name. None: it is undamaged."""
    try:
        found = files.digest(file.location)
    except FileNotFoundError:
        return "is missing"
    except StoreFailed:
        raise  # that says nothing about the file
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return difference(found, file)


def difference(found: Digest, file: SnapshotFile) -> str | None:
    if found.bytes != file.bytes:
        return f"has {found.bytes} bytes instead of {file.bytes}"
    if found.sha256 != file.sha256:
        return f"was altered: its SHA-256 is not {file.sha256}"
    return None
