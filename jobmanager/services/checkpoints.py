"""Use cases about checkpoints. Each one: load, decide, save, commit."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from jobmanager.core.errors import (
    JobNotRunning,
    NothingToVerify,
    UnsupportedRequest,
)
from jobmanager.core.graph.job_graph import Mode
from jobmanager.core.ids import CheckpointNumber, JobId, SubtaskRef
from jobmanager.core.life import checkpoint as checkpoints
from jobmanager.core.life.attempt import AttemptFailed
from jobmanager.core.life.checkpoint import (
    AckOutcome,
    BarrierAcked,
    BarrierDeclined,
    CheckpointKind,
    CheckpointStatus,
)
from jobmanager.core.life.effects import DiscardAttempts, DiscardCheckpoint, DisposeSavepoint
from jobmanager.core.life.failure import Failure, FailureKind
from jobmanager.core.life.job import JobStatus
from jobmanager.core.life.records import HistoryEntry, StoredJob
from jobmanager.core.life.retention import superfluous
from jobmanager.core.plan import job_plan
from jobmanager.core.snapshots.layout import MANIFEST
from jobmanager.core.snapshots.records import Verification
from jobmanager.core.snapshots.storage_uri import below
from jobmanager.services import lifecycle, operations
from jobmanager.services.ports.storage import SnapshotStorage
from jobmanager.services.ports.unit_of_work import UnitOfWork


async def request(uow: UnitOfWork, job_id: JobId, now: datetime) -> CheckpointNumber:
    """Triggers a checkpoint now, beside the periodic ones."""
    async with uow:
        stored = await uow.jobs.get_for_update(job_id)
        if stored.graph.mode is Mode.BATCH:
            raise UnsupportedRequest("a batch job has no checkpoints: it is run again as a whole")
        if stored.job.status is not JobStatus.RUNNING:
            raise JobNotRunning(
                f"job {job_id.hex} is {stored.job.status}: only a running job takes checkpoints"
            )
        number = await trigger_one(uow, stored, CheckpointKind.REQUESTED, now)
        await uow.commit()
    return number


async def trigger_periodic(uow: UnitOfWork, job_id: JobId, now: datetime) -> bool:
    """Triggers the periodic checkpoint, if it is still due and none is under way."""
    async with uow:
        stored = await uow.jobs.get_for_update(job_id)
        due = stored.next_checkpoint_at
        if stored.job.status is not JobStatus.RUNNING or due is None or now < due:
            return False
        operation = await uow.operations.under_way(job_id)
        is_stopping = operation is not None and operation.operation.is_stopping
        if is_stopping or await uow.checkpoints.in_progress(job_id):
            return False
        await trigger_one(uow, stored, CheckpointKind.PERIODIC, now)
        await uow.commit()
    return True


@dataclass(frozen=True, slots=True)
class Acknowledged:
    outcome: AckOutcome
    kind: CheckpointKind
    after: timedelta
    """Since the checkpoint was triggered."""


async def acknowledge(
    uow: UnitOfWork, job_id: JobId, number: CheckpointNumber, ack: BarrierAcked
) -> Acknowledged:
    async with uow:
        stored = await uow.jobs.get_for_update(job_id)
        before = (await uow.checkpoints.get(job_id, number)).checkpoint
        if before.is_savepoint:  # it is in a directory of its own, not the job's
            directory = (await uow.savepoints.of_checkpoint(job_id, number)).directory
            manifest = below(directory, MANIFEST)
            ack = replace(ack, stored=replace(ack.stored, manifest=manifest))
            if before.status is CheckpointStatus.ABORTED:
                # Too late: the user was told that it failed, so it does not stay behind.
                await uow.outbox.add(job_id, [DisposeSavepoint(directory)], ack.at)
        checkpoint, outcome, effects = checkpoints.transition(before, ack)
        assert outcome is not None
        await uow.outbox.add(job_id, effects, ack.at)
        if checkpoint != before:
            await uow.checkpoints.save(job_id, checkpoint, ack.at)
            told = facts(stored.graph.name, checkpoint, ack.at, ack.snapshots)
            await uow.history.announce(job_id, "checkpoint_ack", told)
        if outcome is AckOutcome.COMPLETED:
            await _complete(uow, stored, checkpoint, ack.at)
        await uow.commit()
    return Acknowledged(outcome, before.kind, ack.at - before.triggered_at)


async def decline(
    uow: UnitOfWork, job_id: JobId, number: CheckpointNumber, event: BarrierDeclined
) -> AckOutcome:
    return await _abort(uow, job_id, number, event)


async def expire(
    uow: UnitOfWork, job_id: JobId, number: CheckpointNumber, now: datetime
) -> AckOutcome:
    return await _abort(uow, job_id, number, checkpoints.CheckpointExpired(now))


async def verify(
    uow: UnitOfWork, storage: SnapshotStorage, job_id: JobId, number: CheckpointNumber
) -> Verification:
    """Looks at every file of a completed checkpoint. Long work: outside of any transaction."""
    async with uow:
        await uow.jobs.get(job_id)
        found = await uow.checkpoints.get(job_id, number)
    checkpoint = found.checkpoint
    if checkpoint.status is not CheckpointStatus.COMPLETED or checkpoint.stored is None:
        raise NothingToVerify(f"checkpoint {number} is {checkpoint.status}")
    if checkpoint.is_savepoint:
        raise NothingToVerify(f"checkpoint {number} is a savepoint: verify it as one")
    if found.discarded_at is not None:
        raise NothingToVerify(f"checkpoint {number} was discarded at {found.discarded_at}")
    return await storage.verify(job_id, checkpoint.stored.manifest)


async def trigger_one(
    uow: UnitOfWork,
    stored: StoredJob,
    kind: CheckpointKind,
    now: datetime,
    order: checkpoints.SavepointOrder | None = None,
) -> CheckpointNumber:
    """Writes the checkpoint with its awaited set and its barrier. The caller commits."""
    number, settings = stored.next_checkpoint, stored.graph.checkpointing
    awaited = job_plan.awaited(stored.graph, stored.parallelism)
    checkpoint, _, effects = checkpoints.trigger(
        number, stored.job.attempt, kind, awaited, now, now + settings.timeout, order
    )
    await uow.checkpoints.add(stored.id, checkpoint)
    await uow.history.announce(
        stored.id, "checkpoint_triggered", facts(stored.graph.name, checkpoint, now, awaited)
    )
    await uow.outbox.add(stored.id, effects, now)
    following = stored.next_checkpoint_at
    if kind is CheckpointKind.PERIODIC:
        following = now + settings.interval
    await uow.jobs.save(
        replace(
            stored,
            next_checkpoint=CheckpointNumber(number + 1),
            next_checkpoint_at=following,
        )
    )
    return number


def facts(
    name: str,
    checkpoint: checkpoints.Checkpoint,
    now: datetime,
    subtasks: Iterable[SubtaskRef],
) -> dict[str, Any]:
    """For those who watch: it was triggered and awaits these subtasks, or these have acked."""
    return {
        "at": now.isoformat(),
        "name": name,
        "attempt": checkpoint.attempt,
        "checkpoint": checkpoint.number,
        "checkpoint_kind": checkpoint.kind,
        "status": checkpoint.status,
        "acked": len(checkpoint.snapshots),
        "awaited": len(checkpoint.awaiting),
        "subtasks": sorted(f"{one.region}/{one.vertex}/{one.subtask}" for one in subtasks),
    }


async def _complete(
    uow: UnitOfWork, stored: StoredJob, checkpoint: checkpoints.Checkpoint, now: datetime
) -> None:
    """Resets the failure count, paces the next one, and lets old ones go."""
    if checkpoint.is_savepoint:
        await operations.savepoint_completed(uow, stored, checkpoint, now)
        return
    pause = now + stored.graph.checkpointing.min_pause
    following = max(stored.next_checkpoint_at, pause) if stored.next_checkpoint_at else None
    await uow.jobs.save(replace(stored, failed_checkpoints=0, next_checkpoint_at=following))
    await operations.checkpoint_completed(uow, stored, checkpoint, now)
    restorable = await uow.checkpoints.restorable(stored.id)
    # Marked here, deleted later: from this commit on no restore picks them any more.
    pinned = await uow.jobs.pinned(stored.id)
    for old in superfluous(restorable, stored.graph.checkpointing.retained):
        if old in pinned:
            continue  # another job starts from it, and has nothing of its own yet
        await uow.checkpoints.note_discarded(stored.id, old, now)
        await uow.outbox.add(stored.id, [DiscardCheckpoint(old)], now)
    if checkpoint.attempt > 1 and restorable[-1:] == [checkpoint.number]:
        await uow.outbox.add(stored.id, [DiscardAttempts(checkpoint.attempt)], now)


async def _abort(
    uow: UnitOfWork,
    job_id: JobId,
    number: CheckpointNumber,
    event: BarrierDeclined | checkpoints.CheckpointExpired,
) -> AckOutcome:
    async with uow:
        stored = await uow.jobs.get_for_update(job_id)
        before = (await uow.checkpoints.get(job_id, number)).checkpoint
        checkpoint, outcome, effects = checkpoints.transition(before, event)
        if checkpoint != before:
            await uow.checkpoints.save(job_id, checkpoint, event.at)
            await uow.outbox.add(job_id, effects, event.at)
            await _count_failure(uow, stored, checkpoint, event.at)
        await uow.commit()
    return outcome or AckOutcome.TOO_LATE


async def _count_failure(
    uow: UnitOfWork, stored: StoredJob, checkpoint: checkpoints.Checkpoint, now: datetime
) -> None:
    """A job whose checkpoints fail is not safe: beyond what it tolerates it is restarted."""
    assert checkpoint.aborted_because is not None
    why = f"checkpoint {checkpoint.number} {checkpoint.aborted_because}: {checkpoint.detail}"
    await uow.history.add(
        stored.id,
        HistoryEntry(now, "checkpoint_aborted", why, checkpoint.attempt, checkpoint.number),
    )
    if checkpoint.is_savepoint:
        await operations.savepoint_failed(uow, stored, checkpoint, now)
    counts = checkpoint.kind is CheckpointKind.PERIODIC
    if not counts or checkpoint.aborted_because.is_news_of_attempt:
        # A query that failed declines the barrier first. To fail the attempt for that would
        # hide why: its own report is on the way.
        return
    operation = await uow.operations.under_way(stored.id)
    if operation is not None and operation.operation.is_stopping:
        return  # a barrier that met a job on its way out is no sign of trouble
    stored = replace(stored, failed_checkpoints=stored.failed_checkpoints + 1)
    await uow.jobs.save(stored)
    # a changed job that has no checkpoint yet gets no second chance: the way back is open
    tolerated = 0 if operation else stored.graph.checkpointing.tolerable_failures
    if stored.failed_checkpoints > tolerated and checkpoint.attempt == stored.job.attempt:
        failure = Failure(FailureKind.CHECKPOINTS, f"{why} ({tolerated} failures are tolerated)")
        await lifecycle.move_attempt(
            uow, stored, checkpoint.attempt, AttemptFailed(now, failure), now
        )
