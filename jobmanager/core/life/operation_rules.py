"""Rules that advance operations and their savepoints when a checkpoint or an attempt changes.

A stop, rescale or upgrade waits for its savepoint, then for the end of the attempt. A rescale or an
upgrade then continues with a new attempt, which restores the savepoint with the new graph or
parallelism, and has to complete a checkpoint; if that attempt fails first, the job goes back to the
old graph and parallelism. A completed savepoint is kept, whatever becomes of the operation.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from jobmanager.core.durations import milliseconds
from jobmanager.core.graph import graph_document
from jobmanager.core.ids import AttemptNumber, CheckpointNumber
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
from jobmanager.core.life.checkpoint import BarrierAcked, Checkpoint
from jobmanager.core.life.draft import Draft, Life, is_under_way, savepoint_of
from jobmanager.core.life.effects import DisposeSavepoint, LetRestorePointGo
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
from jobmanager.core.life.records import HistoryEntry, RestorePoint, Savepoint, StoredOperation
from jobmanager.core.life.reported_progress import proved_regions
from jobmanager.core.life.savepoint import SavepointStatus
from jobmanager.core.plan import known_plans
from jobmanager.core.plan.job_plan import SnapshotKind
from jobmanager.core.snapshots.layout import MANIFEST
from jobmanager.core.snapshots.manifest import is_end_of_time

_PROOF_EVERY = timedelta(seconds=1)
"""Time until the next checkpoint, if a checkpoint came before all regions made progress."""


@dataclass(frozen=True, slots=True)
class GoOn:
    """The job continues with a new attempt, however the last attempt ended."""

    reason: str
    keeps_runner: bool


def complete_savepoint(draft: Draft, checkpoint: Checkpoint, now: datetime) -> None:
    savepoint = savepoint_of(draft.life, checkpoint.number)
    files = checkpoint.stored
    assert files is not None
    draft.put_savepoint(
        replace(
            savepoint,
            status=SavepointStatus.COMPLETED,
            completed_at=now,
            bytes=files.bytes,
            regions=_regions(checkpoint),
            drained=any(is_end_of_time(one.watermark) for one in checkpoint.snapshots.values()),
        )
    )
    operation = _of_savepoint(draft.life, savepoint)
    ended = PhaseEnded(now, machine.SAVEPOINT, savepoint.directory)
    operation = _move(draft, operation, ended)
    draft.history.append(
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
        )
    )


def fail_savepoint(draft: Draft, checkpoint: Checkpoint, now: datetime) -> None:
    savepoint = savepoint_of(draft.life, checkpoint.number)
    why = f"{checkpoint.aborted_because}: {checkpoint.detail}"
    draft.put_savepoint(replace(savepoint, status=SavepointStatus.FAILED, failure=why))
    operation = _of_savepoint(draft.life, savepoint)
    _move(draft, operation, PhaseFailed(now, machine.SAVEPOINT, why))


def as_stopped(life: Life, event: AttemptEvent) -> AttemptEvent:
    """Return the event, or a stop in its place: an attempt that ends in any way after the savepoint
    of its stop was completed has processed nothing since, so it counts as stopped.
    """
    if not isinstance(event, AttemptFailed | RunnerExited | RunnerWentSilent | AttemptStopped):
        return event
    found = life.operation
    if found is None or found.savepoint_id is None or found.operation.phase != STOP:
        return event
    kind = found.operation.kind
    said_so = isinstance(event, AttemptStopped)
    fits = found.change is not None and found.change.keeps_runner
    return AttemptStopped(
        event.at,
        f"stopped with savepoint {life.savepoints[found.savepoint_id].directory}",
        is_cancellation=kind is OperationKind.CANCEL,
        keeps_runner=fits and said_so and life.has_live_runner,
    )


def follow_start(draft: Draft, event: AttemptEvent) -> None:
    """End the phases up to the start when a rescaled or upgraded job starts."""
    if not isinstance(event, StatePrepared | QueriesStarted):
        return
    found = draft.life.operation
    if found is None or not found.operation.has_changed_job:
        return
    detail = event.detail if isinstance(event, StatePrepared) else "done"
    prepared = PhaseEnded(event.at, PHASES[found.operation.kind][2], detail)
    found = _move(draft, found, prepared)
    if isinstance(event, QueriesStarted):
        attempt = draft.life.job.job.attempt
        _move(draft, found, PhaseEnded(event.at, START, f"attempt {attempt} runs"))


def follow_end(draft: Draft, attempt: Attempt, event: AttemptEvent) -> GoOn | None:
    """Advance an operation after the end of the attempt: a stop is complete, and a rescale or
    upgrade continues or is rolled back.
    """
    life, now = draft.life, event.at
    found = life.operation
    if found is None or attempt.number != life.job.job.attempt:
        return None
    how = attempt.detail or f"attempt {attempt.number} {attempt.status}"
    kind = found.operation.kind
    if kind.is_change and life.job.job.desired is Desired.CANCELLED:
        _move(draft, found, Abandoned(now, "the job was cancelled"))
        return None
    if found.operation.phase == STOP:
        moved = _move(draft, found, PhaseEnded(now, STOP, how))
        if not kind.is_change:
            return None
        keeps = isinstance(event, AttemptStopped) and event.keeps_runner
        return _go_on_changed(draft, moved, keeps_runner=keeps, now=now)
    if not found.operation.has_changed_job:
        return None
    if attempt.status is AttemptStatus.FAILED:
        assert attempt.failure is not None
        return _roll_back(draft, found, attempt.failure.message, now)
    while is_under_way(found):  # the job had no more input
        found = _move(draft, found, PhaseEnded(now, found.operation.phase, how))
    return None


def is_on_trial(life: Life) -> bool:
    """Whether the job was rescaled or upgraded, runs, and has yet to prove itself."""
    found = life.operation
    return found is not None and found.operation.kind.is_change and found.operation.is_in_last_phase


def follow_checkpoint(draft: Draft, checkpoint: Checkpoint, ack: BarrierAcked) -> None:
    """Complete a rescale or upgrade after a checkpoint, and release the restore point, which is not
    needed any more.
    """
    job, now = draft.life.job, ack.at
    if checkpoint.attempt < job.base_attempt:
        return
    found = draft.life.operation
    if found is not None and is_on_trial(draft.life):
        # A runner of an older version does not wait for a new batch, and says so: then its
        # heartbeats tell, and another checkpoint follows soon.
        if not ack.has_new_batches and not _has_proved_itself(draft.life):
            if job.next_checkpoint_at is not None:  # None: the job is ending
                soon = now + min(_PROOF_EVERY, job.graph.checkpointing.interval)
                draft.change_job(next_checkpoint_at=soon)
            return
        assert checkpoint.stored is not None
        batches = ", ".join(f"{r} at batch {b}" for r, b in checkpoint.stored.batches.items())
        detail = f"checkpoint {checkpoint.number} completed: {batches}"
        _move(draft, found, PhaseEnded(now, found.operation.phase, detail))
    point = job.restore_point
    if point is not None and point.claim:
        _let_go(draft, point, now)


def _has_proved_itself(life: Life) -> bool:
    """Whether every region has committed a batch in this attempt, or has found no input."""
    return proved_regions(life.attempt) >= known_plans.region_ids(life.job.graph)


def _go_on_changed(
    draft: Draft, operation: StoredOperation, *, keeps_runner: bool, now: datetime
) -> GoOn:
    assert operation.change is not None
    reason = _describe(operation)
    attempt = draft.life.job.job.attempt
    _become(draft, operation, operation.change.after)
    detail = {"operation": operation.id.hex}
    kind = f"{operation.operation.kind}_started"
    draft.history.append(HistoryEntry(now, kind, reason, attempt, detail=detail))
    return GoOn(reason, keeps_runner)


def _roll_back(draft: Draft, operation: StoredOperation, error: str, now: datetime) -> GoOn:
    assert operation.change is not None
    _move(draft, operation, PhaseFailed(now, operation.operation.phase, error))
    _become(draft, operation, operation.change.before)
    return GoOn(f"{operation.operation.kind} rolled back: {error}", keeps_runner=False)


def _become(draft: Draft, operation: StoredOperation, revision: Revision) -> None:
    """Let the job continue with a revision, from the operation's savepoint and nothing later."""
    job = draft.life.job
    assert operation.change is not None
    assert operation.savepoint_id is not None
    savepoint = draft.life.savepoints[operation.savepoint_id]
    kind = operation.operation.kind
    # By number, not by value: a graph with another order of columns is another graph.
    is_same = revision.number == job.revision
    document = job.document if is_same else revision.document
    graph = job.graph if is_same else graph_document.parse(document)
    point = RestorePoint(
        root=savepoint.directory,
        manifest=MANIFEST,
        name=f"savepoint {savepoint.id.hex}, taken by {kind} {operation.id.hex}",
        job=job.id.hex,
        savepoint=savepoint.id.hex,
        allow_non_restored_state=operation.change.allow_non_restored_state,
        claim=kind is OperationKind.RESCALE,
    )
    draft.change_job(
        job=replace(job.job, restart=graph.restart),
        document=document,
        graph=graph,
        revision=revision.number,
        parallelism=revision.parallelism,
        restore_point=point,
        base_attempt=AttemptNumber(job.job.attempt + 1),
    )


def _describe(operation: StoredOperation) -> str:
    change = operation.change
    assert change is not None
    if operation.operation.kind is OperationKind.RESCALE:
        return f"rescaled from {change.before.parallelism} to {change.after.parallelism}"
    return f"upgraded from revision {change.before.number} to {change.after.number}"


def _let_go(draft: Draft, point: RestorePoint, now: datetime) -> None:
    """Delete the restore point that the job has claimed, unless another job still needs it."""
    if draft.life.shares_restore_point:
        return
    if point.job != draft.life.job.id.hex:
        number = None if point.checkpoint is None else CheckpointNumber(point.checkpoint)
        draft.effects.append(LetRestorePointGo(point.root, point.job, number))
    else:
        for savepoint in draft.life.savepoints.values():
            if savepoint.directory == point.root:
                draft.put_savepoint(
                    replace(savepoint, status=SavepointStatus.DISPOSED, disposed_at=now)
                )
        draft.effects.append(DisposeSavepoint(point.root))
    draft.change_job(restore_point=replace(point, claim=False))


def _of_savepoint(life: Life, savepoint: Savepoint) -> StoredOperation:
    """Return the operation of a savepoint; both are under way for the same time."""
    return next(one for one in life.operations.values() if one.savepoint_id == savepoint.id)


def _move(draft: Draft, before: StoredOperation, event: OperationEvent) -> StoredOperation:
    moved = replace(before, operation=machine.transition(before.operation, event))
    draft.put_operation(moved)
    has_ended = is_under_way(before) and not is_under_way(moved)
    if has_ended and not _is_plain_savepoint(moved):
        draft.history.append(ending(draft.life, moved, event.at))
    return moved


def _is_plain_savepoint(operation: StoredOperation) -> bool:
    """Whether the operation is only a savepoint, whose completion has its own history entry."""
    kind, status = operation.operation.kind, operation.operation.status
    return kind is OperationKind.SAVEPOINT and status is OperationStatus.COMPLETED


def ending(life: Life, operation: StoredOperation, now: datetime) -> HistoryEntry:
    """Make the entry about the end of an operation."""
    ended = operation.operation
    cause = ended.error or ended.phases[-1].detail or "done"
    detail = {
        "operation": operation.id.hex,
        "phases_ms": ended.timings,
        "total_ms": milliseconds(now - operation.created_at),
    }
    kind = f"{ended.kind}_{ended.status}"
    return HistoryEntry(now, kind, cause, life.job.job.attempt, detail=detail)


def _regions(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return batch, offsets and watermark of each region, from the acks."""
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
