"""Finds the restore point of a new job, verifies its files, and refuses it if it does not fit.

Everything is checked before anything is stored: the restore point of an accepted job was complete
and undamaged at that moment.
"""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from uuid import UUID

from jobmanager.core.errors import (
    DrainedRestorePoint,
    SavepointInUse,
    SinkInUse,
    StateDoesNotFit,
    UnsupportedRequest,
    UnusableRestorePoint,
)
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.ids import CheckpointNumber, JobId, SavepointId
from jobmanager.core.life.checkpoint import CheckpointStatus
from jobmanager.core.life.effects import DiscardCheckpoint, DisposeSavepoint, LetRestorePointGo
from jobmanager.core.life.records import RestorePoint, Savepoint
from jobmanager.core.life.savepoint import SavepointStatus
from jobmanager.core.snapshots import fit
from jobmanager.core.snapshots.layout import MANIFEST
from jobmanager.core.snapshots.storage_uri import UnsupportedStorage, local_path, normal
from jobmanager.files.open_storage import require_shared
from jobmanager.services import path_checks
from jobmanager.services.directives import RunSettings
from jobmanager.services.ports.storage import SnapshotStorage
from jobmanager.services.ports.unit_of_work import UnitOfWork, UnitsOfWork


@dataclass(frozen=True, slots=True)
class RestoreRequest:
    """A client's request about what its job starts from."""

    savepoint: str | None = None
    checkpoint: str | None = None
    claim: bool = False
    allow_non_restored_state: bool = False
    allow_drained: bool = False


async def requested(
    units: UnitsOfWork,
    storage: SnapshotStorage,
    asked: RestoreRequest,
    graph: JobGraph,
    settings: RunSettings,
) -> RestorePoint | None:
    """Return the checked restore point of a new job; None: the job starts without state. Raises
    with all faults.
    """
    if asked.savepoint and asked.checkpoint:
        raise UnsupportedRequest("a job starts from a savepoint or from a checkpoint, not both")
    if asked.savepoint:
        point = await of_savepoint(units(), asked.savepoint)
        await path_checks.require_for_snapshot(settings.paths, point.name, point.root)
    elif asked.checkpoint:
        point = await of_checkpoint(units(), asked.checkpoint, settings)
    else:
        return None
    point = replace(
        point, claim=asked.claim, allow_non_restored_state=asked.allow_non_restored_state
    )
    return await check(
        units(), storage, point, graph, settings.data_root, allow_drained=asked.allow_drained
    )


async def of_savepoint(uow: UnitOfWork, named: str) -> RestorePoint:
    """Find a savepoint. `named` is its id, or its directory: a URI or an absolute path."""
    if len(named) == 32 and "/" not in named:
        try:
            savepoint_id = SavepointId(UUID(hex=named))
        except ValueError:
            raise UnusableRestorePoint(f"{named!r} is neither an id nor a path") from None
        async with uow:
            savepoint = await uow.savepoints.get(savepoint_id)
        if savepoint.status is not SavepointStatus.COMPLETED:
            raise UnusableRestorePoint(f"savepoint {named} is {savepoint.status}")
        root, job = savepoint.directory, savepoint.job_id.hex if savepoint.job_id else ""
    else:
        root, job = await _as_uri(named), ""
    return RestorePoint(root, MANIFEST, f"savepoint {named}", job, savepoint=named)


async def of_checkpoint(uow: UnitOfWork, named: str, settings: RunSettings) -> RestorePoint:
    """Find a checkpoint that still exists. `named` is `<job id>:<number>`."""
    job, _, number = named.partition(":")
    try:
        job_id, checkpoint = JobId(UUID(hex=job)), CheckpointNumber(int(number))
    except ValueError:
        raise UnusableRestorePoint(f"{named!r} is not <job id>:<checkpoint number>") from None
    async with uow:
        found = await uow.checkpoints.get(job_id, checkpoint)
    stored = found.checkpoint.stored
    if found.checkpoint.status is not CheckpointStatus.COMPLETED or stored is None:
        raise UnusableRestorePoint(f"checkpoint {named} is {found.checkpoint.status}")
    if found.discarded_at is not None or found.checkpoint.is_savepoint:
        raise UnusableRestorePoint(f"checkpoint {named} has been deleted")
    root = settings.checkpoints_of(job_id)
    name = f"checkpoint {checkpoint} of job {job_id.hex}"
    return RestorePoint(root, stored.manifest, name, job_id.hex, checkpoint=checkpoint)


async def check(
    uow: UnitOfWork,
    storage: SnapshotStorage,
    point: RestorePoint,
    graph: JobGraph,
    data_root: str,
    *,
    allow_drained: bool,
) -> RestorePoint:
    """Verify that the restore point is undamaged and fits the graph. Raises with all faults."""
    manifest = await storage.read_manifest(point.root, point.manifest)
    if manifest.drained_regions and not allow_drained:
        regions = ", ".join(manifest.drained_regions)
        raise DrainedRestorePoint(
            f"{point.name} is drained (region {regions}): every open window was emitted, and the "
            "watermark is at the end of time, so windows would drop whatever comes as late. "
            "Start from a savepoint or checkpoint that was taken before the drain, or submit "
            "with allow_drained=true (--allow-drained) if that is meant"
        )
    fitting = fit.fit(fit.state_in(manifest), graph)
    faults = fitting.faults(allow_non_restored_state=point.allow_non_restored_state)
    if faults:
        raise StateDoesNotFit(point.name, faults)
    verified = await storage.verify_at(point.root, point.manifest)
    if verified.faults:
        raise UnusableRestorePoint(f"{point.name} is damaged: {'; '.join(verified.faults[:5])}")
    async with uow:
        await check_sinks(uow, graph, data_root)
    if point.claim:
        await _check_claim(uow, point)
    return replace(point, job=manifest.job.hex)


async def hold(uow: UnitOfWork, point: RestorePoint) -> None:
    """Make sure that the restore point still exists when the job is accepted, and is kept: it was
    verified earlier, and may have been discarded since. Discarding a checkpoint or savepoint needs
    the lock of the job that wrote it (of the place, where no job did); this transaction holds that
    lock until its commit. Raises `UnusableRestorePoint`.
    """
    if point.checkpoint is not None:
        writer, number = JobId(UUID(hex=point.job)), CheckpointNumber(point.checkpoint)
        await uow.jobs.get_for_update(writer)
        is_gone = (await uow.checkpoints.get(writer, number)).discarded_at is not None
    else:
        savepoint = await _held_savepoint(uow, point.root)
        # None: it is known by its path only, and the user looks after it
        is_gone = savepoint is not None and savepoint.status is SavepointStatus.DISPOSED
    if is_gone:
        raise UnusableRestorePoint(
            f"{point.name} was discarded while the job was being submitted: choose another"
        )


async def let_go(
    uow: UnitOfWork, job_id: JobId, claimed: LetRestorePointGo, now: datetime
) -> Sequence[JobId]:
    """Deletes what a job has claimed and no longer needs, in a transaction that holds what `hold`
    holds. Returns the jobs that were started from it and still need it: then it stays. To do it
    again changes nothing.
    """
    async with uow:
        if claimed.checkpoint is not None:
            writer = JobId(UUID(hex=claimed.job))
            await uow.jobs.get_for_update(writer)
            users = await uow.jobs.started_from_checkpoint(writer, claimed.checkpoint)
            if users:
                return users
            await uow.checkpoints.note_discarded(writer, claimed.checkpoint, now)
            discard = DiscardCheckpoint(claimed.checkpoint, was_completed=True)
            await uow.outbox.add(writer, [discard], now)
        else:
            savepoint = await _held_savepoint(uow, claimed.root)
            users = await uow.jobs.started_from(claimed.root)
            if users:
                return users
            if savepoint is not None and savepoint.status is SavepointStatus.COMPLETED:
                gone = replace(savepoint, status=SavepointStatus.DISPOSED, disposed_at=now)
                await uow.savepoints.save(gone)
            await uow.outbox.add(job_id, [DisposeSavepoint(claimed.root)], now)
        await uow.commit()
    return ()


async def _held_savepoint(uow: UnitOfWork, root: str) -> Savepoint | None:
    """The savepoint there, if it is known, which stays as it is until the transaction ends."""
    savepoint = await uow.savepoints.at(root)
    if savepoint is None or savepoint.job_id is None:
        await uow.savepoints.lock_place(root)
    else:
        await uow.jobs.get_for_update(savepoint.job_id)
    return await uow.savepoints.at(root)


async def _check_claim(uow: UnitOfWork, point: RestorePoint) -> None:
    """Refuse a claim if another job needs the restore point: a claimed restore point is deleted
    after the new job's first checkpoint.
    """
    async with uow:
        users = await uow.jobs.started_from(point.root) if point.checkpoint is None else []
        live = await uow.jobs.live()
    if users:
        raise SavepointInUse(
            f"job {users[0].hex} was started from {point.name} and still needs it: "
            "wait for its first checkpoint, or use restore_mode=no_claim"
        )
    if point.checkpoint is not None and JobId(UUID(hex=point.job)) in live:
        raise SavepointInUse(
            f"job {point.job} still runs and owns its checkpoints: use restore_mode=no_claim"
        )


async def hold_sinks(uow: UnitOfWork, graph: JobGraph, data_root: str) -> None:
    """Sees to it, until the commit, that no other job writes where this one will: of two that are
    submitted at the same time, the second waits here, and is refused. Raises `SinkInUse`.
    """
    await uow.jobs.lock_outputs()
    await check_sinks(uow, graph, data_root)


async def check_sinks(uow: UnitOfWork, graph: JobGraph, data_root: str) -> None:
    """Refuse a sink path that another live job writes to. A job that starts from a restore point
    withdraws later output, so neither the job that wrote the restore point nor another job started
    from it may be writing there. Raises `SinkInUse`.
    """
    wanted = _outputs(graph, data_root)
    for other in await uow.jobs.writing() if wanted else ():
        taken = sorted(wanted & _outputs(other.graph, other.data_root or data_root))
        if taken:
            raise SinkInUse(
                f"job {other.id.hex} still writes to {taken[0]}: give this one another path, "
                "or stop that job first"
            )


def _outputs(graph: JobGraph, data_root: str) -> set[str]:
    """What no other job may write to while this one does."""
    normal = partial(_normal, data_root=data_root)
    found = (
        vertex.connector.exclusive_output(normal)
        for vertex in graph.vertices
        if isinstance(vertex, Sink)
    )
    return {one for one in found if one is not None}


def _normal(path: str, data_root: str) -> str:
    """Normalise a path, so that two spellings of the same path are equal."""
    if path.startswith("file:"):
        return os.path.normpath(local_path(path))
    return os.path.normpath(Path(data_root) / path)


async def _as_uri(named: str) -> str:
    if "/" not in named:
        raise UnusableRestorePoint(
            f"{named!r} is neither the id of a savepoint nor a URI nor an absolute path"
        )
    try:
        await asyncio.to_thread(require_shared, named)  # which may load a driver
        return normal(named)
    except UnsupportedStorage as error:
        raise UnusableRestorePoint(str(error)) from error
