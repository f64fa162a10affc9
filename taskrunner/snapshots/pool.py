"""The pool: files that checkpoints share, each kept once.

Spark deletes old files from its own directories; a file leaves the pool only when no manifest
names it any more. All changes are made under `pool.lock`, which the JobManager takes too when
it deletes files. A file in the pool is never overwritten.
"""

from itertools import chain
from pathlib import Path

from jobmanager.core.ids import RegionId
from jobmanager.core.snapshots import layout
from jobmanager.core.snapshots.manifest import Manifest, SnapshotFile
from jobmanager.files import durable
from jobmanager.files.storage_port import Digest, Storage

_Stamp = tuple[int, int, int, int]
"""Identifies a version of a file: device, inode, size, time of change."""


class SnapshotPool:
    """The pool of one job, for one attempt. Use it under the pool lock only.

    The lock can be broken: an attempt that was frozen and replaced still writes as if it held the
    lock. So the name of a file contains the hash of its content, and no file is replaced: such an
    attempt cannot change a file that a manifest names.
    """

    def __init__(self, files: Storage) -> None:
        self._files = files
        self._known: dict[str, Digest] = {}
        self._places: dict[tuple[RegionId, str], list[str]] = {}
        self._there: set[str] = set()
        self._read: dict[_Stamp, str] = {}
        self._read_now: dict[_Stamp, str] = {}
        self.new_bytes = 0
        """Bytes added since `begin`."""

    def learn(self, manifest: Manifest) -> None:
        """Takes the locations and checksums of an earlier checkpoint, so that no file is read or
        stored twice: also locations that an earlier release chose.
        """
        for region, known in manifest.regions.items():
            for file in known.files:
                self._known[file.location] = Digest(file.bytes, file.sha256)
                self._places.setdefault((region, file.path), []).append(file.location)

    def begin(self) -> None:
        """Looks at what is there: the JobManager deletes between two checkpoints."""
        self._there = set(self._files.list_files(layout.POOL))
        self._known = {name: kept for name, kept in self._known.items() if name in self._there}
        self._read, self._read_now = self._read_now, {}  # unused checksums are dropped
        self.new_bytes = 0

    def keep(self, region: RegionId, source: Path, path: str) -> SnapshotFile:
        """Keeps `source`, which is `path` in the region's Spark checkpoint directory."""
        known = [one for one in self._places.get((region, path), ()) if one in self._known]
        for location in known:
            if self._files.is_same(source, location):
                return self._file(path, location)
        content = self._sha256(source)
        places = layout.pooled_places(layout.pooled(region, path), content)
        for location in chain(known, places):
            if location not in self._there:
                self._add(source, location)
            if self._kept(location).sha256 == content:
                break
        return self._file(path, location)

    def _add(self, source: Path, location: str) -> None:
        """Keeps `source` at `location`, unless another attempt has created the file meanwhile."""
        kept = self._files.keep_new(source, location)
        self._there.add(location)
        if kept is not None:
            self._known[location] = kept
            self.new_bytes += kept.bytes

    def _file(self, path: str, location: str) -> SnapshotFile:
        kept = self._kept(location)
        return SnapshotFile(path, location, kept.bytes, kept.sha256)

    def _kept(self, location: str) -> Digest:
        """Size and checksum of a file in the pool. Unknown files are read: they may be half."""
        if location not in self._known:
            self._known[location] = self._files.digest(location)
        return self._known[location]

    def _sha256(self, source: Path) -> str:
        stamp = _stamp(source)
        known = self._read_now.get(stamp) or self._read.get(stamp) or durable.sha256(source)
        self._read_now[stamp] = known
        return known


def _stamp(path: Path) -> _Stamp:
    stat = path.stat()
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns
