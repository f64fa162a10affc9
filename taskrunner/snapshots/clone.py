"""The Spark checkpoint directory of a new attempt, cloned by hard links where that can be.

An attempt works in a directory of its own, so an older attempt that still runs cannot
affect it. A clone gets its name only when it is complete: until then it is a draft, which
the next attempt deletes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from jobmanager.core.ids import AttemptNumber, CheckpointNumber, RegionId
from jobmanager.core.snapshots import layout as storage_layout
from jobmanager.core.snapshots import manifest as manifests
from jobmanager.core.snapshots.manifest import Manifest
from jobmanager.files.storage_port import DamagedFile, Storage
from taskrunner.core import restore
from taskrunner.core.restore import (
    CompletedCheckpoint,
    FromAttempt,
    FromCheckpoint,
    FromSavepoint,
    FromScratch,
    Restore,
    SavedRegion,
    StartPoint,
)
from taskrunner.snapshots import durable
from taskrunner.snapshots.layout import JobLayout
from taskrunner.snapshots.previous_attempts import Checks, PreviousAttempts, write_origin
from taskrunner.snapshots.restore_source import RestoreSource
from taskrunner.snapshots.wholeness import checksum_of

_FIRST = AttemptNumber(1)
_NOTHING: Mapping[int, str] = {}


class DamagedCheckpoint(Exception):
    """A file that a manifest names is missing, or differs from the manifest."""


@dataclass(frozen=True, slots=True)
class Past:
    """The states that an attempt may start from."""

    completed: Manifest | None = None
    """The latest checkpoint."""
    origin: RestoreSource | None = None
    base_attempt: AttemptNumber = _FIRST
    """State of attempts before this one is never restored."""
    checks: Checks = field(default_factory=dict, compare=False)
    """Results of the verification of attempts' directories, which takes time."""


class Clones:
    """Makes the directories of one attempt. The epoch must have been raised before."""

    def __init__(self, layout: JobLayout, attempt: AttemptNumber, past: Past) -> None:
        self._layout = layout
        self._attempt = attempt
        self._past = past
        self._previous = PreviousAttempts(layout, attempt, past.base_attempt, past.checks)

    def choose(self, region: RegionId, lost_output: Mapping[int, str] = _NOTHING) -> Restore:
        """Chooses the newest undamaged state that the region can start from.

        `lost_output` maps batches that a sink has committed and cannot publish to the reason.
        """
        saved = self._past.origin.region(region) if self._past.origin else None
        return self._choose(region, lost_output, saved)

    def wants_origin(self, region: RegionId, lost_output: Mapping[int, str] = _NOTHING) -> bool:
        """Whether the region would start from the job's restore point, or from scratch."""
        saved = SavedRegion("", is_known=True, batch=0)
        choice = self._choose(region, lost_output, saved)
        return isinstance(choice, FromSavepoint | FromScratch)

    def _choose(
        self, region: RegionId, lost_output: Mapping[int, str], saved: SavedRegion | None
    ) -> Restore:
        completed = _completed(region, self._past.completed)
        durable_batch = -1 if completed is None or completed.batch is None else completed.batch
        # output before the checkpoint cannot be computed again: there the sink raises an error
        lost = {batch: why for batch, why in lost_output.items() if batch > durable_batch}
        previous = self._previous.newest(region, durable_batch, lost)
        return restore.choose(previous, completed, saved)

    def draft(self, region: RegionId, choice: Restore) -> Path:
        """Makes the region's directory from the chosen state, as a draft under a temporary name,
        and records its origin.
        """
        for leftover in self._names(region):
            self._layout.work.delete_directory(leftover)
        draft = self._layout.clone_draft(self._attempt, region)
        durable.make_directory(draft)
        completed, origin = self._past.completed, self._past.origin
        match choice:
            case FromAttempt(attempt=attempt, batch=batch, replays=replays):
                source = self._layout.spark_checkpoint_dir(attempt, region)
                check = self._previous.check(attempt, region)
                _clone_files(check.files(StartPoint(batch, replays)), source, draft)
            case FromCheckpoint() if completed is not None:
                _clone_manifest(self._layout.snapshots, completed, region, draft)
            case FromSavepoint() if origin is not None:
                origin.clone(region, draft, self._layout)
            case FromScratch() | FromCheckpoint() | FromSavepoint():
                pass
        write_origin(self._layout, self._attempt, region, choice)
        return draft

    def finish(self, region: RegionId) -> None:
        """Gives the region's draft its final name: from now on the attempt has this state."""
        draft, target = self._names(region)
        self._layout.work.rename(draft, target)

    def _names(self, region: RegionId) -> tuple[str, str]:
        """The names of the region's directory: as a draft, and when it is complete."""
        return (
            storage_layout.clone_draft(self._attempt, region),
            storage_layout.spark_checkpoint_dir(self._attempt, region),
        )


def read_manifest(layout: JobLayout, checkpoint: CheckpointNumber) -> Manifest:
    """Reads the manifest. Raises `DamagedCheckpoint` if it is missing or unreadable."""
    try:
        text = layout.snapshots.read(storage_layout.checkpoint_manifest(checkpoint))
        return manifests.from_json(text.decode())
    except (OSError, ValueError) as error:
        raise DamagedCheckpoint(f"checkpoint {checkpoint} cannot be read: {error}") from error


def _completed(region: RegionId, manifest: Manifest | None) -> CompletedCheckpoint | None:
    if manifest is None or region not in manifest.regions:
        return None
    return CompletedCheckpoint(manifest.checkpoint, manifest.regions[region].batch)


def _clone_files(files: Iterable[Path], source: Path, target: Path) -> None:
    """Clones the files with their Hadoop checksums, so that the next attempt can verify them."""
    for path in files:
        for one in (path, checksum_of(path)):
            if one is path or one.exists():
                durable.link_or_copy(one, target / one.relative_to(source))


def _clone_manifest(files: Storage, manifest: Manifest, region: RegionId, target: Path) -> None:
    for file in manifest.regions[region].files:
        try:
            files.fetch(file, target / file.path)
        except DamagedFile as error:
            raise DamagedCheckpoint(
                f"checkpoint {manifest.checkpoint} is damaged: {error}"
            ) from error
