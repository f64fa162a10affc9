"""Files on a file system, kept as hard links where that can be."""

import os
import shutil
from collections.abc import Iterable, Mapping, Set
from pathlib import Path

from jobmanager.core.snapshots.manifest import SnapshotFile
from jobmanager.files import durable
from jobmanager.files.snapshot_files import DamagedFile, Kept


class LocalFiles:
    links = True

    def __init__(self, root: Path) -> None:
        self._root = root
        self.uri = root.as_uri()

    def found(self, below: str = "") -> Mapping[str, int]:
        sizes = {}
        for directory, _, names in os.walk(self._root / below):
            for name in names:
                path = Path(directory, name)
                sizes[path.relative_to(self._root).as_posix()] = path.lstat().st_size
        return sizes

    def names(self, below: str = "") -> Set[str]:
        try:
            return {path.name for path in (self._root / below).iterdir()}
        except FileNotFoundError:
            return set()

    def read(self, location: str) -> bytes:
        return (self._root / location).read_bytes()

    def digest(self, location: str) -> Kept:
        path = self._root / location
        return Kept(path.stat().st_size, durable.sha256(path))

    def is_same(self, source: Path, location: str) -> bool:
        path = self._root / location
        return path.exists() and path.samefile(source)

    def keep(self, source: Path, location: str) -> Kept:
        """Spark replaces its files, it never changes one, so a link is a copy."""
        path = self._root / location
        durable.make_directory(path.parent)
        path.unlink(missing_ok=True)
        durable.link_or_copy(source, path)
        durable.sync(path)
        return self.digest(location)

    def settle(self, files: Iterable[SnapshotFile]) -> None:
        """They were synced as they came in; here their names."""
        for directory in {(self._root / file.location).parent for file in files}:
            durable.sync(directory)

    def write(self, location: str, text: str) -> None:
        durable.write(self._root / location, text)

    def fetch(self, file: SnapshotFile, target: Path) -> None:
        """A link: only its size is looked at."""
        path = self._root / file.location
        if not path.is_file():
            raise DamagedFile(f"{file.location} is missing")
        if path.stat().st_size != file.bytes:
            raise DamagedFile(
                f"{file.location} has {path.stat().st_size} bytes instead of {file.bytes}"
            )
        durable.link_or_copy(path, target)

    def delete(self, locations: Iterable[str]) -> None:
        for location in locations:
            (self._root / location).unlink(missing_ok=True)

    def remove(self, below: str = "") -> None:
        shutil.rmtree(self._root / below, ignore_errors=True)
