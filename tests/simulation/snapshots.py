"""Takes and restores snapshots in simulated storage, step by step as `taskrunner/snapshots`.

The manifest is the real one. The real rule, `taskrunner.core.restore`, decides which state a region
starts from.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from jobmanager.core.ids import AttemptNumber, CheckpointNumber, JobId, RegionId, VertexId
from jobmanager.core.plan.job_plan import Region
from jobmanager.core.snapshots import layout
from jobmanager.core.snapshots import manifest as manifests
from jobmanager.core.snapshots.manifest import (
    Ancestor,
    Manifest,
    RegionManifest,
    SavepointInfo,
    SnapshotFile,
    StatePointer,
)
from taskrunner.core import restore
from taskrunner.core.restore import (
    CompletedCheckpoint,
    FromAttempt,
    FromCheckpoint,
    FromSavepoint,
    FromScratch,
    PreviousAttempt,
    Restore,
    SavedRegion,
)
from tests.simulation import stream
from tests.simulation.graphs import Simulated
from tests.simulation.scheduler import Steps
from tests.simulation.storage import (
    CheckpointDiscarded,
    FileGone,
    JobStorage,
    LockUnavailable,
    RegionDirectory,
    SavepointDirectory,
    Storage,
)
from tests.simulation.stream import Counts, StateFile

_UPLOADS = 3


@dataclass(frozen=True, slots=True)
class AttemptContext:
    job: JobId
    attempt: AttemptNumber
    simulated: Simulated
    parallelism: int


@dataclass(frozen=True, slots=True)
class Past:
    """What an attempt may start from."""

    completed: Manifest | None
    saved: Manifest | None
    saved_files: Mapping[str, StateFile]
    saved_name: str
    base_attempt: AttemptNumber


def take(
    context: AttemptContext,
    storage: JobStorage,
    checkpoint: CheckpointNumber,
    at: datetime,
    check: Callable[[], None],
    before_manifest: Callable[[Manifest], None],
) -> Steps[Manifest]:
    """As `Snapshots.take`: uploads without the lock, looks under the lock whether all is there.
    Raises `Superseded`, `LockUnavailable`, `CheckpointDiscarded`; what `check` raises.
    """
    for _ in range(_UPLOADS):
        regions = {}
        for region in context.simulated.regions:
            storage.check_epoch(context.attempt)
            check()
            directory = storage.attempts[context.attempt].regions[region.id]
            found = _region_manifest(region, directory, layout.pooled(region.id, ""))
            for file, state in found.kept:
                storage.pool[file.location] = state
            regions[region.id] = found.manifest
            yield None
        manifest = _manifest(context, checkpoint, at, regions, None)
        before_manifest(manifest)
        if (yield from _is_published(context, storage, manifest)):
            return manifest
    raise LockUnavailable("files were deleted again")


def _is_published(context: AttemptContext, storage: JobStorage, manifest: Manifest) -> Steps[bool]:
    token = yield from storage.pool_lock.acquire()
    try:
        storage.check_epoch(context.attempt)
        if manifest.checkpoint in storage.discarded:
            raise CheckpointDiscarded(f"checkpoint {manifest.checkpoint} was discarded")
        if any(file.location not in storage.pool for file in manifest.files()):
            return False
        yield None
        storage.checkpoints[manifest.checkpoint] = manifest
        return True
    finally:
        storage.pool_lock.release(token)


def take_savepoint(
    context: AttemptContext,
    storage: Storage,
    checkpoint: CheckpointNumber,
    at: datetime,
    savepoint: UUID,
    directory: str,
    before_manifest: Callable[[Manifest], None],
) -> Steps[Manifest]:
    """As `Snapshots.take_savepoint`: a draft, renamed while the epoch is held. Raises
    `Superseded`, `FileExistsError`.
    """
    there = storage.of(context.job)
    there.check_epoch(context.attempt)
    if directory in storage.savepoints:
        raise FileExistsError(directory)
    draft: dict[str, StateFile] = {}
    regions = {}
    for region in context.simulated.regions:
        found = _region_manifest(
            region, there.attempts[context.attempt].regions[region.id], f"{region.id}/"
        )
        draft.update({file.location: state for file, state in found.kept})
        regions[region.id] = found.manifest
        yield None
    itself = Ancestor(context.job, manifests.batches_by_sink(regions))
    lineage = (*there.lineage, itself)
    info = SavepointInfo(savepoint, context.simulated.document, lineage)
    manifest = _manifest(context, checkpoint, at, regions, info)
    before_manifest(manifest)
    token = yield from there.epoch_lock.acquire()
    try:
        there.check_epoch(context.attempt)
        if directory in storage.savepoints:
            raise FileExistsError(directory)
        storage.savepoints[directory] = SavepointDirectory(manifest, draft)
    finally:
        there.epoch_lock.release(token)
    return manifest


def choose(storage: JobStorage, attempt: AttemptNumber, past: Past, region: RegionId) -> Restore:
    """Where the region is to start from, as `Clones.choose`."""
    return _choose(storage, attempt, past, region, _saved(past, region))


def wants_origin(storage: JobStorage, attempt: AttemptNumber, past: Past, region: RegionId) -> bool:
    """As `Clones.wants_origin`."""
    choice = _choose(storage, attempt, past, region, SavedRegion("", is_known=True, batch=0))
    return isinstance(choice, FromSavepoint | FromScratch)


def _choose(
    storage: JobStorage,
    attempt: AttemptNumber,
    past: Past,
    region: RegionId,
    saved: SavedRegion | None,
) -> Restore:
    completed = _completed(past.completed, region)
    durable = -1 if completed is None or completed.batch is None else completed.batch
    previous = _previous(storage, attempt, past.base_attempt, region, durable)
    return restore.choose(previous, completed, saved)


def cloned(
    storage: JobStorage, past: Past, region: RegionId, choice: Restore, parallelism: int
) -> RegionDirectory:
    """The region's directory as it was chosen. Raises `FileGone`."""
    match choice:
        case FromScratch():
            return RegionDirectory()
        case FromAttempt(attempt=attempt, batch=batch, replays=replays):
            source = storage.attempts[attempt].regions[region]
            committed = -1 if batch is None else batch
            last_begun = committed + int(replays)
            return RegionDirectory(
                {n: r for n, r in source.offsets.items() if n <= last_begun},
                {n: s for n, s in source.commits.items() if n <= committed},
            )
        case FromCheckpoint(batch=batch):
            assert past.completed is not None
            return _of_manifest(past.completed, storage.pool, region, batch)
        case FromSavepoint(batch=batch):
            assert past.saved is not None
            found = _of_manifest(past.saved, past.saved_files, region, batch)
            if past.saved.parallelism != parallelism:  # Spark writes the new state as a batch
                end = found.end_of(batch)
                name = f"{past.saved_name}-{region}-{batch + 1}-p{parallelism}"
                rewritten = stream.repartitioned(found.commits[batch], parallelism, name)
                found.offsets[batch + 1] = (end, end)
                found.commits[batch + 1] = rewritten
            return found


def state_in(
    manifest: Manifest, files: Mapping[str, StateFile], region: RegionId
) -> tuple[Counts, int] | None:
    """The state that a manifest names, and how many rows it has; None: no batch yet. Raises
    `FileGone`.
    """
    known = manifest.regions[region]
    if known.batch is None:
        return None
    missing = [file.location for file in known.files if file.location not in files]
    if missing:
        raise FileGone(f"{missing[0]} of checkpoint {manifest.checkpoint} is not there")
    ordered = sorted(known.pointers, key=lambda one: one.subtask)
    rows: Any = next(iter(known.offsets.values()))
    return tuple(files[one.pointer] for one in ordered), int(rows)


def _of_manifest(
    manifest: Manifest, files: Mapping[str, StateFile], region: RegionId, batch: int
) -> RegionDirectory:
    found = state_in(manifest, files, region)
    assert found is not None
    state, rows = found
    return RegionDirectory({batch: (rows, rows)}, {batch: state})


def _previous(
    storage: JobStorage, attempt: AttemptNumber, base: AttemptNumber, region: RegionId, durable: int
) -> PreviousAttempt | None:
    """As `PreviousAttempts.newest`: the newest attempt whose directory was made, or that had
    decided to go back to something durable, decides.
    """
    for number, directory in storage.older_attempts(base, attempt):
        origin = directory.origins.get(region)
        known = directory.regions.get(region)
        if known is None:
            if origin is None or isinstance(origin, FromAttempt):
                continue
            return PreviousAttempt(number, None, False, fault="it was cut off")
        assert origin is not None
        points = restore.start_points(known.commits, known.offsets, durable)
        found = restore.newest_whole(number, points, lambda point: None, {})
        stood_still = known.last_committed == restore.batch_of(origin)
        if found is not None and isinstance(origin, FromAttempt) and stood_still:
            return replace(found, failed_start=f"attempt {number} committed nothing")
        return found
    return None


def _completed(manifest: Manifest | None, region: RegionId) -> CompletedCheckpoint | None:
    if manifest is None or region not in manifest.regions:
        return None
    return CompletedCheckpoint(manifest.checkpoint, manifest.regions[region].batch)


def _saved(past: Past, region: RegionId) -> SavedRegion | None:
    if past.saved is None:
        return None
    known = past.saved.regions.get(region)
    return SavedRegion(past.saved_name, known is not None, known.batch if known else None)


@dataclass(frozen=True, slots=True)
class _Kept:
    manifest: RegionManifest
    kept: list[tuple[SnapshotFile, StateFile]]


def _region_manifest(region: Region, directory: RegionDirectory, prefix: str) -> _Kept:
    batch = directory.last_committed
    if batch is None:
        return _Kept(RegionManifest(None, None, {}, (), ()), [])
    state, vertex = directory.commits[batch], region.keyed[0]
    kept = [(SnapshotFile(one.name, prefix + one.name, 1, ""), one) for one in state]
    pointers = tuple(
        StatePointer(vertex, subtask, batch + 1, file.location, 1)
        for subtask, (file, _) in enumerate(kept)
    )
    offsets: dict[VertexId, Any] = {region.sources[0]: directory.end_of(batch)}
    files = tuple(file for file, _ in kept)
    return _Kept(RegionManifest(batch, None, offsets, files, pointers), kept)


def _manifest(
    context: AttemptContext,
    checkpoint: CheckpointNumber,
    at: datetime,
    regions: Mapping[RegionId, RegionManifest],
    savepoint: SavepointInfo | None,
) -> Manifest:
    return Manifest(
        job=context.job,
        checkpoint=checkpoint,
        attempt=context.attempt,
        created_at=at,
        spark_version="simulated",
        parallelism=context.parallelism,
        max_parallelism=stream.MAX_PARALLELISM,
        regions=regions,
        savepoint=savepoint,
    )
