"""The Spark checkpoint directory of a new attempt, cloned by hard links.

An attempt works in a directory of its own, so an older attempt that still runs cannot
affect it. A clone gets its name only when it is complete: until then it is a draft, which
the next attempt deletes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
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
    PreviousAttempt,
    Restore,
)
from taskrunner.snapshots import durable, spark_state
from taskrunner.snapshots.layout import JobLayout
from taskrunner.snapshots.restore_source import RestoreSource
from taskrunner.snapshots.spark_log import SparkLog

_FIRST = AttemptNumber(1)


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


class Clones:
    """Makes the directories of one attempt. The epoch must have been raised before."""

    def __init__(self, layout: JobLayout, attempt: AttemptNumber, past: Past) -> None:
        self._layout = layout
        self._attempt = attempt
        self._past = past

    def choose(self, region: RegionId) -> Restore:
        """Chooses the newest state that the region can start from."""
        saved = self._past.origin.region(region) if self._past.origin else None
        completed = _completed(region, self._past.completed)
        return restore.choose(self._previous(region), completed, saved)

    def draft(self, region: RegionId, choice: Restore) -> Path:
        """Makes the region's directory from the chosen state, as a draft under a temporary name."""
        for leftover in self._names(region):
            self._layout.work.delete_directory(leftover)
        draft = self._layout.clone_draft(self._attempt, region)
        durable.make_directory(draft)
        completed, origin = self._past.completed, self._past.origin
        match choice:
            case FromAttempt(attempt=attempt, batch=batch, replays=replays):
                source = self._layout.spark_checkpoint_dir(attempt, region)
                committed = -1 if batch is None else batch
                _clone_directory(source, draft, committed, committed + int(replays))
            case FromCheckpoint() if completed is not None:
                _clone_manifest(self._layout.snapshots, completed, region, draft)
            case FromSavepoint() if origin is not None:
                origin.clone(region, draft, self._layout)
            case FromScratch() | FromCheckpoint() | FromSavepoint():
                pass
        return draft

    def finish(self, region: RegionId) -> None:
        """Gives the region's draft its final name: from now on the attempt has this state."""
        draft, target = self._names(region)
        self._layout.work.rename(draft, target)

    def _previous(self, region: RegionId) -> PreviousAttempt | None:
        """The newest attempt that committed a batch, else the newest attempt that began one."""
        first_batch = None
        for attempt in self._older_attempts():
            directory = self._layout.spark_checkpoint_dir(attempt, region)
            log = SparkLog(directory)
            batch, begun = log.last_committed(), log.last_begun()
            drained_after = read_drain(self._layout, attempt, region)
            if drained_after is not None:
                # the stop failed after its drain: with that watermark all rows would be late
                fault = _fault(directory, drained_after)
                return PreviousAttempt(attempt, drained_after, False, fault)
            if batch is not None:
                is_pending = batch + 1 in log.begun()
                return PreviousAttempt(attempt, batch, is_pending, _fault(directory, batch))
            if begun is not None and first_batch is None:
                first_batch = PreviousAttempt(attempt, None, True, _fault(directory, None))
        return first_batch

    def _names(self, region: RegionId) -> tuple[str, str]:
        """The names of the region's directory: as a draft, and when it is complete."""
        return (
            storage_layout.clone_draft(self._attempt, region),
            storage_layout.spark_checkpoint_dir(self._attempt, region),
        )

    def _older_attempts(self) -> list[AttemptNumber]:
        """The newest first."""
        names = self._layout.work.list_names(storage_layout.ATTEMPTS)
        known = range(self._past.base_attempt, self._attempt)
        return [n for n in reversed(storage_layout.attempt_numbers(names)) if n in known]


def read_manifest(layout: JobLayout, checkpoint: CheckpointNumber) -> Manifest:
    """Reads the manifest. Raises `DamagedCheckpoint` if it is missing or unreadable."""
    try:
        text = layout.snapshots.read(storage_layout.checkpoint_manifest(checkpoint))
        return manifests.from_json(text.decode())
    except (OSError, ValueError) as error:
        raise DamagedCheckpoint(f"checkpoint {checkpoint} cannot be read: {error}") from error


def read_drain(layout: JobLayout, attempt: AttemptNumber, region: RegionId) -> int | None:
    """The batch after which a stop drained the region; None: no stop did."""
    try:
        return int(layout.work.read(storage_layout.drain(attempt, region)))
    except FileNotFoundError:
        return None


def _completed(region: RegionId, manifest: Manifest | None) -> CompletedCheckpoint | None:
    if manifest is None or region not in manifest.regions:
        return None
    return CompletedCheckpoint(manifest.checkpoint, manifest.regions[region].batch)


def _fault(directory: Path, batch: int | None) -> str | None:
    """Why the directory of an attempt cannot be trusted."""
    try:
        SparkLog(directory).offsets(0 if batch is None else batch)
        if batch is not None:
            spark_state.state_of(directory, batch)
    except Exception as error:  # after any error the directory cannot be trusted
        return f"{type(error).__name__}: {error}"
    return None


def _clone_directory(source: Path, target: Path, batch: int, last_begun: int) -> None:
    for path in _visible_files(source):
        inside = path.relative_to(source)
        match inside.parts:
            case ("offsets", name) if int(name) > last_begun:
                continue
            case ("commits", name) if int(name) > batch:
                continue
            case _:
                durable.link(path, target / inside)


def _clone_manifest(files: Storage, manifest: Manifest, region: RegionId, target: Path) -> None:
    for file in manifest.regions[region].files:
        try:
            files.fetch(file, target / file.path)
        except DamagedFile as error:
            raise DamagedCheckpoint(
                f"checkpoint {manifest.checkpoint} is damaged: {error}"
            ) from error


def _visible_files(directory: Path) -> Iterator[Path]:
    """All files except hidden ones, which are temporary, or checksums that Hadoop writes again."""
    for path in sorted(directory.rglob("*")):
        inside = path.relative_to(directory)
        if path.is_file() and not any(part.startswith(".") for part in inside.parts):
            yield path
