"""The pool: state files that checkpoints share, each kept once as a hard link.

Spark's own directories lose files when Spark tidies up; the pool loses one only when
no manifest names it any more. All changes are made under `pool.lock`, which the
JobManager takes too when it deletes.
"""

from pathlib import Path

from jobmanager.core.ids import RegionId
from jobmanager.core.manifest import POOL, Manifest, SnapshotFile
from taskrunner.snapshots import durable
from taskrunner.snapshots.layout import JobLayout


class Pool:
    """The pool of one job, for one attempt. Use it under the pool lock only."""

    def __init__(self, layout: JobLayout) -> None:
        self._layout = layout
        self._known: dict[str, str] = {}
        self.new_bytes = 0
        """Added since it was last set to 0."""

    def learn(self, manifest: Manifest) -> None:
        """Takes the checksums of an earlier checkpoint, so that no file is read twice."""
        self._known.update({file.location: file.sha256 for file in manifest.files()})

    def keep(self, region: RegionId, source: Path, path: str) -> SnapshotFile:
        """Keeps `source`, which is `path` in the region's Spark checkpoint directory."""
        target = self._layout.directory / POOL / region / path
        if target.exists() and not target.samefile(source):
            target = self._beside(target, source)
        if not target.exists():
            durable.sync(source)
            durable.make_directory(target.parent)
            durable.link(source, target)
            self.new_bytes += target.stat().st_size
        location = self._layout.relative(target)
        if location not in self._known:
            self._known[location] = durable.sha256(target)
        return SnapshotFile(path, location, target.stat().st_size, self._known[location])

    def _beside(self, target: Path, source: Path) -> Path:
        """A place for a file whose name is taken: the same one if the bytes are the same.

        Spark may write a snapshot of one version again, with other shared files in it.
        """
        content = durable.sha256(source)
        known = self._layout.relative(target)
        self._known.setdefault(known, durable.sha256(target))
        if self._known[known] == content:
            return target
        return target.with_name(f"{target.name}~{content[:16]}")
