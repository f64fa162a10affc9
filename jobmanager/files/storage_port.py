"""The port: storage below one place, whatever kind of storage it is.

Both programs keep everything they share through these operations and no others, so another
kind of storage is another implementation of them (`LocalStorage` on a file system,
`FsspecStorage` for what fsspec reaches), and passes `tests/unit/files/test_storage_port.py`.
A file is known by its location, a path relative to the place; `core.snapshots.layout` builds
every location.

What is written appears under its name whole or not at all, and stays after a crash, if the
operation returned. Whoever keeps a set of files writes its manifest last: a directory without
a manifest holds nothing that counts. Every operation may raise `OSError`; where the storage is
reached by fsspec that is a `StoreFailed`.

Spark's own working directories are not behind the port: Spark reads and writes them by path,
so they are on a file system by nature, and only `keep` and `fetch` carry files over.
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
    """A store did not do what it was asked to. The message has its own words."""


class UnsupportedOperation(OSError):
    """Storage of this kind has no such operation."""


class DamagedFile(Exception):
    """A file is missing, or is not what its manifest says."""


class MissingFile(DamagedFile):
    """A file that a manifest names is not there."""


@dataclass(frozen=True, slots=True)
class Digest:
    """What a file consists of."""

    bytes: int
    sha256: str


class Storage(Protocol):
    uri: str
    """The place, without a slash at its end."""
    links: bool
    """Whether a file that is kept is another name of the same bytes, and costs nothing."""
    renames: bool
    """Whether `rename` can be used."""

    def inside(self, directory: str) -> Self:
        """The storage below a directory of this one. Nothing is asked or made."""

    # ── looking ──

    def list_files(self, below: str = "") -> Mapping[str, int]:
        """Every file below a directory at any depth, with its size, by locations of this place.

        Nothing where there is no such directory. What was written before the call is in it.
        """

    def list_names(self, below: str = "") -> Set[str]:
        """The names of the files and directories that stand in a directory itself."""

    def read(self, location: str) -> bytes:
        """All of a file. Raises `FileNotFoundError`."""

    def digest(self, location: str) -> Digest:
        """Reads all of a file. Raises `FileNotFoundError`."""

    def is_same(self, source: Path, location: str) -> bool:
        """Whether both are known to be one file, with no need to compare bytes."""

    # ── writing ──

    def write(self, location: str, content: str | bytes) -> None:
        """Writes or replaces a file in one step, durably; readers see the old or the new file.

        Repeated it changes nothing. If it raises, the file is the old one, or there is none.
        """

    def create(self, location: str, content: str | bytes) -> bool:
        """The conditional write: writes a file in one step, durably, if none is there.

        False: a file is there, and was left alone. Of many who create one location, however
        close together, exactly one is told True; repeated by that one the answer is False, so
        whoever must know reads the file. Raises `UnsupportedOperation` where the storage has
        no conditional write.
        """

    def keep(self, source: Path, location: str) -> Digest:
        """Makes `location` what the local file `source` is: by a link where there can be one,
        by a copy otherwise. What was there is replaced in one step, so it may be repeated.

        The file stays as it is when `source` is replaced or deleted; `source` is never changed
        in place (Spark replaces its files). Its name is durable only after `make_durable`.
        """

    def keep_new(self, source: Path, location: str) -> Digest | None:
        """As `keep`, if nothing is there. None: a file is there, and was left alone.

        A conditional write where the storage has one. Elsewhere it looks first and then writes, so
        that two who do so at once may both write: `location` has to name the content.
        """

    def make_durable(self, files: Iterable[SnapshotFile]) -> None:
        """Returns when all these files, which were kept before, survive a crash under their
        names. Raises `OSError` if one is not there, or is of another size. May be repeated.
        """

    def rename(self, before: str, after: str) -> None:
        """Gives a file or a directory, with all in it, another name in one step, durably.

        Raises `FileExistsError` if something has the name already, and `FileNotFoundError` if
        nothing has the old one, so a repeat after a crash can be told from a first try. Those
        who may rename to one name at the same time have to hold a lock. Raises
        `UnsupportedOperation` where `renames` is False: there a directory counts by its
        manifest, which is written last.
        """

    def fetch(self, file: SnapshotFile, target: Path) -> None:
        """Makes the local file `target` of it, by a link or a copy, which is only read from.

        Raises `MissingFile` or another `DamagedFile`: a copy is compared byte by byte, of a link
        only the size.
        """

    # ── deleting ──

    def delete(self, locations: Iterable[str]) -> None:
        """Deletes files. What is not there is deleted already."""

    def delete_directory(self, below: str = "") -> None:
        """Deletes a directory with everything in it, in any order: not in one step."""

    # ── excluding others ──

    def lock(self, location: str, wait: timedelta = LOCK_WAIT) -> AbstractContextManager[None]:
        """Holds the lock called `location` for the length of the block, alone among processes
        and threads; not to be taken twice. Raises `LockUnavailable` after `wait`.

        A process that died holds no lock: at once on a file system, where the operating system
        sees to it; elsewhere after the holder has given no sign of life for a while.
        """

    def break_lock(self, location: str, wait: timedelta = BREAK_WAIT) -> None:
        """Sees to it that the lock can be had, although its holder may not let go within `wait`:
        it may be frozen on a machine out of reach. Only for who has made sure that the holder
        can do no harm: the holder goes on believing that it has the lock.
        """


def damage(files: Storage, file: SnapshotFile) -> str | None:
    """What is wrong with a file, to be read after its name. None: every byte is right."""
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
