"""What becomes of savepoints and operations when their checkpoint or attempt moves on.

Called inside the use cases that move those; the caller holds the job's lock.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from jobmanager.core.durations import milliseconds
from jobmanager.core.graph import graph_document
from jobmanager.core.ids import AttemptNumber, CheckpointNumber, JobId
from jobmanager.core.life import operation as machine
from jobmanager.core.life.attempt import (
    Attempt,
    AttemptEvent,
    AttemptFailed,
    AttemptStatus,
    AttemptStopped,
    QueriesStarted,
    RunnerExited,
    RunnerWentSilent,
    StatePrepared,
)
from jobmanager.core.life.change import Revision
from jobmanager.core.life.checkpoint import Checkpoint
from jobmanager.core.life.effects import DiscardCheckpoint, DisposeSavepoint
from jobmanager.core.life.job import Desired
from jobmanager.core.life.operation import (
    PHASES,
    START,
    STOP,
    Abandoned,
    OperationEvent,
    OperationKind,
    OperationStatus,
    PhaseEnded,
    PhaseFailed,
)
from jobmanager.core.life.records import HistoryEntry, RestorePoint, StoredJob, StoredOperation
from jobmanager.core.life.savepoint import SavepointStatus
from jobmanager.core.plan.job_plan import SnapshotKind, assignment, plan_of
from jobmanager.core.snapshots.layout import MANIFEST
from jobmanager.services.ports.unit_of_work import UnitOfWork

_PROOF_EVERY = timedelta(seconds=1)
"""How soon after a checkpoint that proved nothing the next one of a changed job is taken."""


@dataclass(frozen=True, slots=True)
class GoOn:
    """The job goes on with another attempt, whatever became of the one that ended."""

    stored: StoredJob
    """As it is to run from here on."""
    reason: str
    keeps_runner: bool


async def savepoint_completed(
    uow: UnitOfWork, stored: StoredJob, checkpoint: Checkpoint, now: datetime
) -> None:
    savepoint = await uow.savepoints.of_checkpoint(stored.id, checkpoint.number)
    files = checkpoint.stored
    assert files is not None
    await uow.savepoints.save(
        replace(
            savepoint,
            status=SavepointStatus.COMPLETED,
            completed_at=now,
            bytes=files.bytes,
            regions=_regions(checkpoint),
        )
    )
    operation = await uow.operations.of_savepoint(savepoint.id)
    ended = PhaseEnded(now, machine.SAVEPOINT, savepoint.directory)
    operation = await _move(uow, stored, operation, ended)
    await uow.history.add(
        stored.id,
        HistoryEntry(
            now,
            "savepoint_completed",
            f"{operation.operation.kind} {operation.id.hex}",
            checkpoint.attempt,
            checkpoint.number,
            {
                "directory": savepoint.directory,
                "savepoint": savepoint.id.hex,
                "phases_ms": operation.operation.timings,
            },
        ),
    )


async def savepoint_failed(
    uow: UnitOfWork, stored: StoredJob, checkpoint: Checkpoint, now: datetime
) -> None:
    savepoint = await uow.savepoints.of_checkpoint(stored.id, checkpoint.number)
    why = f"{checkpoint.aborted_because}: {checkpoint.detail}"
    await uow.savepoints.save(replace(savepoint, status=SavepointStatus.FAILED, failure=why))
    operation = await uow.operations.of_savepoint(savepoint.id)
    await _move(uow, stored, operation, PhaseFailed(now, machine.SAVEPOINT, why))


async def as_stopped(
    uow: UnitOfWork, stored: StoredJob, event: AttemptEvent, now: datetime
) -> AttemptEvent:
    """The event, or a stop in its place: an attempt that ends in whatever way after the
    savepoint of its stop was completed has processed nothing since, and is stopped.
    """
    if not isinstance(event, AttemptFailed | RunnerExited | RunnerWentSilent | AttemptStopped):
        return event
    found = await uow.operations.under_way(stored.id)
    if found is None or found.operation.phase != STOP:
        return event
    savepoint = await uow.savepoints.get(found.savepoint_id)
    kind = found.operation.kind
    return AttemptStopped(
        now,
        f"stopped with savepoint {savepoint.directory}",
        is_cancellation=kind is OperationKind.CANCEL,
        keeps_runner=kind.is_change and isinstance(event, AttemptStopped),
    )


async def attempt_moved(
    uow: UnitOfWork, stored: StoredJob, event: AttemptEvent, now: datetime
) -> None:
    """A changed job comes up: the phases up to its start end."""
    if not isinstance(event, StatePrepared | QueriesStarted):
        return
    found = await uow.operations.under_way(stored.id)
    if found is None or not found.operation.has_changed_job:
        return
    detail = event.detail if isinstance(event, StatePrepared) else "done"
    prepared = PhaseEnded(now, PHASES[found.operation.kind][2], detail)
    found = await _move(uow, stored, found, prepared)
    if isinstance(event, QueriesStarted):
        started = PhaseEnded(now, START, f"attempt {stored.job.attempt} runs")
        await _move(uow, stored, found, started)


async def attempt_ended(
    uow: UnitOfWork, stored: StoredJob, attempt: Attempt, event: AttemptEvent, now: datetime
) -> GoOn | None:
    """The attempt is over: a stop is complete, and a change goes on or goes back."""
    found = await uow.operations.under_way(stored.id)
    if found is None or attempt.number != stored.job.attempt:
        return None
    how = attempt.detail or f"attempt {attempt.number} {attempt.status}"
    kind = found.operation.kind
    if kind.is_change and stored.job.desired is Desired.CANCELLED:
        await _move(uow, stored, found, Abandoned(now, "the job was cancelled"))
        return None
    if found.operation.phase == STOP:
        moved = await _move(uow, stored, found, PhaseEnded(now, STOP, how))
        if not kind.is_change:
            return None
        keeps = isinstance(event, AttemptStopped) and event.keeps_runner
        return await _change(uow, stored, moved, keeps_runner=keeps, now=now)
    if not found.operation.has_changed_job:
        return None
    if attempt.status is AttemptStatus.FAILED:
        assert attempt.failure is not None
        return await _roll_back(uow, stored, found, attempt.failure.message, now)
    while found.operation.status is OperationStatus.IN_PROGRESS:  # it had no more input
        found = await _move(uow, stored, found, PhaseEnded(now, found.operation.phase, how))
    return None


async def checkpoint_completed(
    uow: UnitOfWork, stored: StoredJob, checkpoint: Checkpoint, now: datetime
) -> None:
    """The job stands on its own: a change is complete, and what it came from may go."""
    if checkpoint.attempt < stored.base_attempt:
        return
    found = await uow.operations.under_way(stored.id)
    if found and found.operation.kind.is_change and found.operation.is_in_last_phase:
        if not await _has_proved_itself(uow, stored):
            soon = now + min(_PROOF_EVERY, stored.graph.checkpointing.interval)
            fresh = await uow.jobs.get_for_update(stored.id)
            await uow.jobs.save(replace(fresh, next_checkpoint_at=soon))
            return
        assert checkpoint.stored is not None
        batches = ", ".join(f"{r} at batch {b}" for r, b in checkpoint.stored.batches.items())
        detail = f"checkpoint {checkpoint.number} completed: {batches}"
        await _move(uow, stored, found, PhaseEnded(now, found.operation.phase, detail))
    point = stored.restore_point
    if point is not None and point.claim:
        await _let_go(uow, stored, point, now)


async def _has_proved_itself(uow: UnitOfWork, stored: StoredJob) -> bool:
    """Every region has committed a batch of its own, or has found that there is no input."""
    progress = (await uow.attempts.get(stored.id, stored.job.attempt)).progress or ()
    done = {one.region for one in progress if one.batches or one.is_idle}
    return done >= {region.id for region in plan_of(stored.graph).regions}


async def _change(
    uow: UnitOfWork,
    stored: StoredJob,
    operation: StoredOperation,
    *,
    keeps_runner: bool,
    now: datetime,
) -> GoOn:
    change = operation.change
    assert change is not None
    reason = _describe(operation)
    changed = await _as_revision(uow, stored, operation, change.after)
    entry = HistoryEntry(
        now,
        f"{operation.operation.kind}_started",
        reason,
        stored.job.attempt,
        detail={"operation": operation.id.hex},
    )
    await uow.history.add(stored.id, entry)
    return GoOn(changed, reason, keeps_runner)


async def _roll_back(
    uow: UnitOfWork, stored: StoredJob, operation: StoredOperation, error: str, now: datetime
) -> GoOn:
    change, kind = operation.change, operation.operation.kind
    assert change is not None
    await _move(uow, stored, operation, PhaseFailed(now, operation.operation.phase, error))
    reason = f"{kind} rolled back: {error}"
    before = await _as_revision(uow, stored, operation, change.before)
    return GoOn(before, reason, keeps_runner=False)


async def _as_revision(
    uow: UnitOfWork, stored: StoredJob, operation: StoredOperation, revision: Revision
) -> StoredJob:
    """The job as it goes on from the operation's savepoint, and from nothing that came later."""
    savepoint = await uow.savepoints.get(operation.savepoint_id)
    assert operation.change is not None
    kind = operation.operation.kind
    graph = graph_document.parse(revision.document)
    point = RestorePoint(
        root=savepoint.directory,
        manifest=MANIFEST,
        name=f"savepoint {savepoint.id.hex}, taken by {kind} {operation.id.hex}",
        job=stored.id.hex,
        savepoint=savepoint.id.hex,
        allow_non_restored_state=operation.change.allow_non_restored_state,
        claim=kind is OperationKind.RESCALE,
    )
    await uow.key_groups.replace(stored.id, assignment(graph, revision.parallelism))
    return replace(
        stored,
        job=replace(stored.job, restart=graph.restart),
        document=revision.document,
        graph=graph,
        revision=revision.number,
        parallelism=revision.parallelism,
        restore_point=point,
        base_attempt=AttemptNumber(stored.job.attempt + 1),
    )


def _describe(operation: StoredOperation) -> str:
    change = operation.change
    assert change is not None
    if operation.operation.kind is OperationKind.RESCALE:
        return f"rescaled from {change.before.parallelism} to {change.after.parallelism}"
    return f"upgraded from revision {change.before.number} to {change.after.number}"


async def _let_go(uow: UnitOfWork, stored: StoredJob, point: RestorePoint, now: datetime) -> None:
    """Deletes what the job has claimed, unless another job still needs it."""
    job_id = JobId(stored.id)
    if point.checkpoint is not None:
        other, number = JobId(UUID(hex=point.job)), CheckpointNumber(point.checkpoint)
        if number in await uow.jobs.pinned(other):
            return
        await uow.checkpoints.note_discarded(other, number, now)
        await uow.outbox.add(other, [DiscardCheckpoint(number)], now)
    else:
        if any(one != job_id for one in await uow.jobs.started_from(point.root)):
            return
        savepoint = await uow.savepoints.at(point.root)
        if savepoint is not None:
            await uow.savepoints.save(
                replace(savepoint, status=SavepointStatus.DISPOSED, disposed_at=now)
            )
        await uow.outbox.add(job_id, [DisposeSavepoint(point.root)], now)
    fresh = await uow.jobs.get_for_update(job_id)
    await uow.jobs.save(replace(fresh, restore_point=replace(point, claim=False)))


async def _move(
    uow: UnitOfWork, stored: StoredJob, before: StoredOperation, event: OperationEvent
) -> StoredOperation:
    moved = replace(before, operation=machine.transition(before.operation, event))
    await uow.operations.save(moved)
    has_ended = moved.operation.ended_at is not None and before.operation.ended_at is None
    if has_ended and not _is_plain_savepoint(moved):
        await uow.history.add(stored.id, _ending(stored, moved, event.at))
    return moved


def _is_plain_savepoint(operation: StoredOperation) -> bool:
    """Its end is the completion of the savepoint, which has an entry of its own."""
    kind, status = operation.operation.kind, operation.operation.status
    return kind is OperationKind.SAVEPOINT and status is OperationStatus.COMPLETED


def _ending(stored: StoredJob, operation: StoredOperation, now: datetime) -> HistoryEntry:
    ended = operation.operation
    cause = ended.error or ended.phases[-1].detail or "done"
    detail = {
        "operation": operation.id.hex,
        "phases_ms": ended.timings,
        "total_ms": milliseconds(now - operation.created_at),
    }
    kind = f"{ended.kind}_{ended.status}"
    return HistoryEntry(now, kind, cause, stored.job.attempt, detail=detail)


def _regions(checkpoint: Checkpoint) -> dict[str, Any]:
    """Batch, offsets and watermark of each region, from the acks."""
    assert checkpoint.stored is not None
    regions: dict[str, Any] = {
        region: {"batch": batch, "offsets": {}, "watermark": None}
        for region, batch in checkpoint.stored.batches.items()
    }
    for ref, snapshot in checkpoint.snapshots.items():
        if snapshot.kind is SnapshotKind.OFFSETS:
            regions[ref.region]["offsets"][ref.vertex] = snapshot.offsets
            if snapshot.watermark is not None:
                regions[ref.region]["watermark"] = snapshot.watermark.isoformat()
    return regions
