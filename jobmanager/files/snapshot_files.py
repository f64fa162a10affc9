"""The port: files below one place, each known by its location, a relative path.

Whoever keeps files writes the manifest last, so a place without one holds nothing that
counts. Every method may raise `OSError`; of a store elsewhere it is a `StoreFailed`.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from jobmanager.core.snapshots.manifest import SnapshotFile


class StoreFailed(OSError):
    """A store did not do what it was asked to. The message has its own words."""


class DamagedFile(Exception):
    """A file is missing, or is not what its manifest says."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a file consists of."""

    bytes: int
    sha256: str


class SnapshotFiles(Protocol):
    uri: str
    links: bool
    """Whether a file that is kept is another name of the same bytes, and costs nothing."""

    def found(self, below: str = "") -> Mapping[str, int]:
        """Every file in a directory, with its size; none where there is no such directory."""

    def names(self, below: str = "") -> Set[str]:
        """What is in a directory itself: files and directories."""

    def read(self, location: str) -> bytes:
        """Raises `FileNotFoundError`."""

    def digest(self, location: str) -> Kept:
        """Reads all of a file. Raises `FileNotFoundError`."""

    def is_same(self, source: Path, location: str) -> bool:
        """Whether the two are known to be one file, with no need to compare bytes."""

    def keep(self, source: Path, location: str) -> Kept:
        """Makes `location` what `source` is. What was there is replaced."""

    def settle(self, files: Iterable[SnapshotFile]) -> None:
        """Returns when all these are there to stay, under their names."""

    def write(self, location: str, text: str) -> None:
        """Writes or replaces a file in one step, durably."""

    def fetch(self, file: SnapshotFile, target: Path) -> None:
        """Makes the local file `target` of it, which is only read from. Raises `DamagedFile`."""

    def delete(self, locations: Iterable[str]) -> None:
        """What is not there is deleted already."""

    def remove(self, below: str = "") -> None:
        """Deletes a directory with everything in it."""


def damage(files: SnapshotFiles, file: SnapshotFile) -> str | None:
    """What is wrong with a file, to be read after its name. None: every byte is right."""
    try:
        kept = files.digest(file.location)
    except FileNotFoundError:
        return "is missing"
    except StoreFailed:
        raise  # that says nothing about the file
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return difference(kept, file)


def difference(kept: Kept, file: SnapshotFile) -> str | None:
    if kept.bytes != file.bytes:
        return f"has {kept.bytes} bytes instead of {file.bytes}"
    if kept.sha256 != file.sha256:
        return f"was altered: its SHA-256 is not {file.sha256}"
    return None
