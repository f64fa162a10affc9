"""Storage on a file system: files are kept as hard links where possible, locks are `flock`."""

import errno
import os
import shutil
from collections.abc import Iterable, Mapping, Set
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import Self
from uuid import uuid4

from jobmanager.core.snapshots.layout import temporary_name
from jobmanager.core.snapshots.manifest import SnapshotFile
from jobmanager.files import durable, locks
from jobmanager.files.storage_port import BREAK_WAIT, LOCK_WAIT, DamagedFile, Digest, MissingFile

_TAKEN = (errno.ENOTEMPTY, errno.EEXIST)


class LocalStorage:
    links = True
    renames = True

    def __init__(self, root: Path) -> None:
        self._root = root
        self.uri = root.as_uri()

    def inside(self, directory: str) -> Self:
        return type(self)(self.path(directory))

    def path(self, location: str) -> Path:
        """Return the path of a location, for Spark, which needs paths."""
        return self._root / location

    def list_files(self, below: str = "") -> Mapping[str, int]:
        sizes = {}
        for directory, _, names in os.walk(self._root / below):
            for name in names:
                path = Path(directory, name)
                sizes[path.relative_to(self._root).as_posix()] = path.lstat().st_size
        return sizes

    def list_names(self, below: str = "") -> Set[str]:
        try:
            return {path.name for path in (self._root / below).iterdir()}
        except (FileNotFoundError, NotADirectoryError):
            return set()

    def read(self, location: str) -> bytes:
        return (self._root / location).read_bytes()

    def digest(self, location: str) -> Digest:
        path = self._root / location
        return Digest(path.stat().st_size, durable.sha256(path))

    def is_same(self, source: Path, location: str) -> bool:
        path = self._root / location
        return path.exists() and path.samefile(source)

    def write(self, location: str, content: str | bytes) -> None:
        durable.write(self._root / location, content)

    def create(self, location: str, content: str | bytes) -> bool:
        return durable.create(self._root / location, content)

    def keep(self, source: Path, location: str) -> Digest:
        """Keep a file by a link: Spark replaces its files and never changes them, so a link is as
        good as a copy.
        """
        path = self._root / location
        durable.make_directory(path.parent)
        aside = path.with_name(temporary_name(path.name, uuid4().hex))
        try:
            durable.link_or_copy(source, aside)
            durable.sync(aside)
            aside.replace(path)
        finally:
            aside.unlink(missing_ok=True)  # a rename to another link of the same file does nothing
        return self.digest(location)

    def keep_new(self, source: Path, location: str) -> Digest | None:
        path = self._root / location
        durable.make_directory(path.parent)
        if not durable.link_or_copy_new(source, path):
            return None
        durable.sync(path)
        return self.digest(location)

    def make_durable(self, files: Iterable[SnapshotFile]) -> None:
        """Sync the names of files; their contents were synced when they were kept."""
        directories = set()
        for file in files:
            path = self._root / file.location
            if (size := path.stat().st_size) != file.bytes:
                raise OSError(f"{path} has {size} bytes after {file.bytes} were kept")
            directories.add(path.parent)
        for directory in directories:
            durable.sync(directory)

    def rename(self, before: str, after: str) -> None:
        source, target = self._root / before, self._root / after
        if os.path.lexists(target):  # a rename would replace a file, or an empty directory
            raise FileExistsError(f"{target} exists already")
        durable.make_directory(target.parent)
        try:
            source.rename(target)
        except OSError as error:
            if error.errno in _TAKEN:
                raise FileExistsError(f"{target} exists already") from error
            raise
        for directory in {source.parent, target.parent}:
            durable.sync(directory)

    def fetch(self, file: SnapshotFile, target: Path) -> None:
        """Fetch a file by a link; only its size is checked."""
        path = self._root / file.location
        if not path.is_file():
            raise MissingFile(f"{file.location} is missing")
        if path.stat().st_size != file.bytes:
            raise DamagedFile(
                f"{file.location} has {path.stat().st_size} bytes instead of {file.bytes}"
            )
        durable.link_or_copy(path, target)

    def delete(self, locations: Iterable[str]) -> None:
        for location in locations:
            (self._root / location).unlink(missing_ok=True)

    def delete_directory(self, below: str = "") -> None:
        shutil.rmtree(self._root / below, ignore_errors=True)

    def lock(self, location: str, wait: timedelta = LOCK_WAIT) -> AbstractContextManager[None]:
        return locks.held(self._root / location, wait)

    def break_lock(self, location: str, wait: timedelta = BREAK_WAIT) -> None:
        locks.break_lock(self._root / location, wait)
