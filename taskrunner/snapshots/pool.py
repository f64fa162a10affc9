"""The pool: files that checkpoints share, each kept once.

Spark deletes old files from its own directories; a file leaves the pool only when no manifest
names it any more. All changes are made under `pool.lock`, which the JobManager takes too when
it deletes files. A file in the pool is never overwritten.
"""

from pathlib import Path

from jobmanager.core.ids import RegionId
from jobmanager.core.snapshots import layout
from jobmanager.core.snapshots.manifest import Manifest, SnapshotFile
from jobmanager.files import durable
from jobmanager.files.storage_port import Digest, Storage

_Stamp = tuple[int, int, int, int]
"""Identifies a version of a file: device, inode, size, time of change."""


class SnapshotPool:
    """The pool of one job, for one attempt. Use it under the pool lock only."""

    def __init__(self, files: Storage) -> None:
        self._files = files
        self._known: dict[str, Digest] = {}
        self._there: dict[str, int] = {}
        self._read: dict[_Stamp, str] = {}
        self._read_now: dict[_Stamp, str] = {}
        self.new_bytes = 0
        """Bytes added since `begin`."""

    def learn(self, manifest: Manifest) -> None:
        """Takes the checksums of an earlier checkpoint, so that no file is read twice."""
        for file in manifest.files():
            self._known[file.location] = Digest(file.bytes, file.sha256)

    def begin(self) -> None:
        """Lists the pool again: the JobManager may have deleted files since the last checkpoint."""
        self._there = dict(self._files.list_files(layout.POOL))
        self._known = {name: kept for name, kept in self._known.items() if name in self._there}
        self._read, self._read_now = self._read_now, {}  # unused checksums are dropped
        self.new_bytes = 0

    def keep(self, region: RegionId, source: Path, path: str) -> SnapshotFile:
        """Keeps `source`, which is `path` in the region's Spark checkpoint directory."""
        location = self._place(layout.pooled(region, path), source)
        if location not in self._there:
            self._add(source, location)
        kept = self._kept(location)
        return SnapshotFile(path, location, kept.bytes, kept.sha256)

    def _place(self, location: str, source: Path) -> str:
        """The location of the file: another name if a file with the same name has other bytes.

        Spark may write a snapshot of one version again, with other shared files in it, and
        a dead attempt may have left half of a file, under any name.
        """
        if location not in self._there or self._files.is_same(source, location):
            return location
        content = self._sha256(source)
        return next(
            name
            for name in layout.pooled_beside(location, content)
            if name not in self._there or self._kept(name).sha256 == content
        )

    def _add(self, source: Path, location: str) -> None:
        stamp = _stamp(source)
        kept = self._files.keep(source, location)
        self._known[location] = kept
        self._there[location] = kept.bytes
        self._read_now[stamp] = kept.sha256
        self.new_bytes += kept.bytes

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
