"""Use cases about the checkpoints of one job."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from jobmanager.core.errors import NothingToVerify
from jobmanager.core.ids import CheckpointNumber, JobId, OperationId
from jobmanager.core.life.checkpoint import (
    AckOutcome,
    BarrierAcked,
    BarrierDeclined,
    CheckpointExpired,
    CheckpointKind,
    CheckpointStatus,
)
from jobmanager.core.life.events import CheckpointNews, CheckpointRequested
from jobmanager.core.snapshots.records import Verification
from jobmanager.services import lives
from jobmanager.services.lives import Happened
from jobmanager.services.ports.storage import SnapshotStorage
from jobmanager.services.ports.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class Acknowledged:
    outcome: AckOutcome
    kind: CheckpointKind
    after: timedelta
    """Time since the checkpoint was triggered."""
    is_last: bool
    """The checkpoint is complete with it."""


async def request(
    uow: UnitOfWork, job_id: JobId, trigger: OperationId, now: datetime
) -> CheckpointNumber:
    """Trigger a checkpoint now, in addition to the periodic checkpoints. A repeated call with the
    same trigger id returns the same checkpoint.
    """
    async with uow:
        await uow.jobs.get_for_update(job_id)
        known = await uow.checkpoints.triggered_by(job_id, trigger)
        if known is not None:
            return known
        happened = await lives.move(uow, job_id, CheckpointRequested(now))
        number = CheckpointNumber(happened.life.job.next_checkpoint - 1)
        await uow.checkpoints.note_trigger(job_id, number, trigger)
        await uow.commit()
    return number


async def acknowledge(
    uow: UnitOfWork, job_id: JobId, number: CheckpointNumber, ack: BarrierAcked
) -> Acknowledged:
    return acknowledged(await lives.happen(uow, job_id, CheckpointNews(number, ack)), number)


def acknowledged(happened: Happened, number: CheckpointNumber) -> Acknowledged:
    """Return the outcome of an ack of checkpoint `number`."""
    checkpoint, outcome = happened.life.checkpoints[number], happened.step.outcome
    assert outcome is not None
    took = happened.at - checkpoint.triggered_at
    is_news = outcome in (AckOutcome.RECORDED, AckOutcome.COMPLETED)
    is_last = is_news and checkpoint.status is CheckpointStatus.COMPLETED
    return Acknowledged(outcome, checkpoint.kind, took, is_last)


async def decline(
    uow: UnitOfWork, job_id: JobId, number: CheckpointNumber, event: BarrierDeclined
) -> AckOutcome:
    happened = await lives.happen(uow, job_id, CheckpointNews(number, event))
    return happened.step.outcome or AckOutcome.TOO_LATE


async def expire(uow: UnitOfWork, job_id: JobId, number: CheckpointNumber, now: datetime) -> None:
    await lives.happen(uow, job_id, CheckpointNews(number, CheckpointExpired(now)))


async def verify(
    uow: UnitOfWork, storage: SnapshotStorage, job_id: JobId, number: CheckpointNumber
) -> Verification:
    """Verify every file of a completed checkpoint. This takes long, so no transaction is open."""
    async with uow:
        await uow.jobs.get(job_id)
        found = await uow.checkpoints.get(job_id, number)
    checkpoint = found.checkpoint
    if checkpoint.status is not CheckpointStatus.COMPLETED or checkpoint.stored is None:
        raise NothingToVerify(f"checkpoint {number} is {checkpoint.status}")
    if checkpoint.is_savepoint:
        raise NothingToVerify(f"checkpoint {number} is a savepoint: verify the savepoint instead")
    if found.discarded_at is not None:
        raise NothingToVerify(f"checkpoint {number} was discarded at {found.discarded_at}")
    return await storage.verify(job_id, checkpoint.stored.manifest)
