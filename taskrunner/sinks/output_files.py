"""The port for the file operations of a files sink, and its implementation for the file systems
that are mounted on this machine.

A sink's directory is a path inside one file system. `LocalFiles` is for paths of this machine;
`taskrunner.spark.connectors.hadoop_files` has the implementations for `hdfs:` and `s3a:`. All of
them have to pass `tests/integration/spark/test_output_files.py`.

Every caller that changes something holds the job's epoch lock, so no operation has to be safe
against a second writer. An operation may be cut off by the death of the process at any point; the
contract of each says what the next process finds then. Every operation may raise `OSError`.
"""

import errno
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path, PurePath, PurePosixPath
from typing import NamedTuple, Protocol
from uuid import uuid4

import pyarrow
import pyarrow.orc
import pyarrow.parquet

from jobmanager.core.graph.file_format import FileFormat
from jobmanager.core.paths.location import Location
from taskrunner.snapshots import durable

_NO_RENAME = (errno.EXDEV, errno.EACCES, errno.EPERM, errno.EROFS)
_BUFFER = 1 << 20
Place = Path | Location
"""A directory of this machine, or one on a remote file system."""


class NoFooter(Exception):
    """A file has no readable footer, so its rows cannot be counted."""


class FilePart(NamedTuple):
    path: PurePath
    first: int
    """Where the part begins; it goes to the end of the file."""


class OutputFiles(Protocol):
    """Operations on one file system. Paths are absolute."""

    def uri(self, path: PurePath) -> str:
        """Return the name of a path as Spark takes it."""

    def shown(self, path: PurePath) -> str:
        """Return the name of a path as messages show it."""

    # ── looking ──

    def size(self, path: PurePath) -> int | None:
        """Return the size of a file; None: there is no such file."""

    def is_directory(self, path: PurePath) -> bool: ...

    def names(self, directory: PurePath) -> list[str]:
        """Return the names in a directory, sorted; none if there is no such directory."""

    def files_below(self, directory: PurePath) -> Mapping[PurePosixPath, int]:
        """Return every file below a directory, at any depth: its path inside the directory, and its
        size. Empty if there is no such directory.
        """

    def read(self, path: PurePath) -> str:
        """Read a whole file. Raises `FileNotFoundError`."""

    def read_part(self, path: PurePath, first: int, size: int) -> bytes:
        """Read `size` bytes of a file from byte `first` on, or as many as there are. Raises
        `FileNotFoundError`.
        """

    def count_rows(self, path: PurePath, file_format: FileFormat) -> int:
        """Return the number of rows that the footer of a Parquet or ORC file states. Raises
        `NoFooter`.
        """

    def can_rename_into(self, directory: PurePath) -> bool:
        """Whether files can be moved into a directory from beside it."""

    # ── writing ──

    def make_directory(self, path: PurePath) -> None:
        """Make a directory and its parents, where the file system has directories."""

    def create(self, path: PurePath, text: str) -> bool:
        """Write a file if it does not exist; False: it exists, and was left unchanged. The file is
        complete and durable as soon as it can be seen.
        """

    def write(self, path: PurePath, text: str) -> None:
        """Write or replace a file: readers find the old file or the new file, and no other."""

    def rename(self, before: PurePath, after: PurePath) -> None:
        """Rename a file; the new name exists completely, or not at all. After a crash both names
        may exist; then the operation has to be repeated.
        """

    def publish(self, staged: PurePath, final: PurePath) -> None:
        """Move a file to its final name, where a file may be. Otherwise as `rename`."""

    def concatenate(self, parts: Iterable[FilePart], target: PurePath) -> None:
        """Write the contents of files, one after the other, into a new file, which becomes durable
        by `sync_files`. Raises `FileNotFoundError`.
        """

    def sync_files(self, paths: Iterable[PurePath], inside: PurePath) -> None:
        """Make files that Spark wrote durable, with their directories up to `inside`. Raises
        `FileNotFoundError`.
        """

    def sync(self, directory: PurePath) -> None:
        """Make the names in a directory durable."""

    # ── deleting ──

    def delete(self, path: PurePath) -> None:
        """Delete a file. A file that does not exist counts as deleted."""

    def discard(self, directory: PurePath) -> None:
        """Delete a directory with its content, as far as that is possible."""


FilesOf = Callable[[Place], OutputFiles]


class LocalFiles:
    """A file system that is mounted on this machine."""

    def uri(self, path: PurePath) -> str:
        # Hadoop decodes nothing in the text of a path (see `hadoop_path`)
        return f"file://{Path(path).absolute()}"

    def shown(self, path: PurePath) -> str:
        return str(path)

    def size(self, path: PurePath) -> int | None:
        try:
            return Path(path).stat().st_size
        except FileNotFoundError:
            return None

    def is_directory(self, path: PurePath) -> bool:
        return Path(path).is_dir()

    def names(self, directory: PurePath) -> list[str]:
        try:
            return sorted(one.name for one in Path(directory).iterdir())
        except FileNotFoundError:
            return []

    def files_below(self, directory: PurePath) -> Mapping[PurePosixPath, int]:
        return {
            PurePosixPath(path.relative_to(directory)): path.stat().st_size
            for path in sorted(Path(directory).rglob("*"))
            if path.is_file()
        }

    def read(self, path: PurePath) -> str:
        return Path(path).read_text(encoding="utf-8")

    def read_part(self, path: PurePath, first: int, size: int) -> bytes:
        with Path(path).open("rb") as file:
            file.seek(first)
            return file.read(size)

    def count_rows(self, path: PurePath, file_format: FileFormat) -> int:
        try:
            if file_format is FileFormat.PARQUET:
                return int(pyarrow.parquet.read_metadata(Path(path)).num_rows)
            return int(pyarrow.orc.ORCFile(Path(path)).nrows)
        except pyarrow.ArrowException as error:
            raise NoFooter(str(error)) from None

    def can_rename_into(self, directory: PurePath) -> bool:
        """Tests it with a file: two mounts of one device have the same device number."""
        name = f".headgate-{uuid4().hex}"
        beside, inside = Path(directory.parent / name), Path(directory / name)
        try:
            beside.touch()
            beside.rename(inside)
        except OSError as error:
            if error.errno not in _NO_RENAME:
                raise
            return False
        finally:
            for one in (beside, inside):
                with suppress(OSError):
                    one.unlink(missing_ok=True)
        return True

    def make_directory(self, path: PurePath) -> None:
        durable.make_directory(Path(path))

    def create(self, path: PurePath, text: str) -> bool:
        return durable.create(Path(path), text)

    def write(self, path: PurePath, text: str) -> None:
        durable.write(Path(path), text)

    def rename(self, before: PurePath, after: PurePath) -> None:
        Path(before).rename(after)

    def publish(self, staged: PurePath, final: PurePath) -> None:
        durable.move(Path(staged), Path(final))

    def concatenate(self, parts: Iterable[FilePart], target: PurePath) -> None:
        with Path(target).open("xb") as joined:
            for part in parts:
                with Path(part.path).open("rb") as file:
                    file.seek(part.first)
                    shutil.copyfileobj(file, joined, _BUFFER)

    def sync_files(self, paths: Iterable[PurePath], inside: PurePath) -> None:
        durable.sync_all(map(Path, paths), inside=Path(inside))

    def sync(self, directory: PurePath) -> None:
        if Path(directory).exists():
            durable.sync(Path(directory))

    def delete(self, path: PurePath) -> None:
        Path(path).unlink(missing_ok=True)

    def discard(self, directory: PurePath) -> None:
        shutil.rmtree(directory, ignore_errors=True)


LOCAL = LocalFiles()


def local_files(place: Place) -> OutputFiles:
    """The operations on a directory of this machine. Raises `ValueError` for a remote directory."""
    if isinstance(place, Location):
        raise ValueError(f"{place} is not on this machine")
    return LOCAL


def path_of(place: Place) -> PurePath:
    """The path of a directory inside its file system."""
    return place.path if isinstance(place, Location) else place
