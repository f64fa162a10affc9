"""Moves a job and its attempt together, and writes down what follows.

The two machines decide; this module feeds the result of one to the other inside
one transaction, so that no reader ever sees a job that runs on an attempt that
has ended. The caller holds the job's lock and commits.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from jobmanager.core.graph.job_graph import Mode
from jobmanager.core.ids import AttemptNumber
from jobmanager.core.life import attempt as attempts
from jobmanager.core.life import checkpoint as checkpoints
from jobmanager.core.life import job as jobs
from jobmanager.core.life.effects import DiscardAttempts
from jobmanager.core.life.health import Health
from jobmanager.core.life.records import HistoryEntry, StoredAttempt, StoredJob
from jobmanager.core.progress import RegionProgress, RestoredRegion
from jobmanager.services import operations
from jobmanager.services.ports.runners import Runner
from jobmanager.services.ports.unit_of_work import UnitOfWork

CANCEL_GRACE = timedelta(seconds=30)


async def move_job(
    uow: UnitOfWork,
    stored: StoredJob,
    event: jobs.JobEvent,
    now: datetime,
    kept_runner: Runner | None = None,
) -> StoredJob:
    """Applies `event` to the job and does what follows from it. An attempt that is launched
    goes to `kept_runner`, where there is one.
    """
    job, step = jobs.transition(stored.job, event)
    moved = await _save(uow, stored, job, now)
    match step:
        case jobs.AttemptOrder.LAUNCH_NEXT:
            await launch_attempt(uow, moved, now, kept_runner)
        case jobs.AttemptOrder.CANCEL_CURRENT:
            cancel = attempts.CancelRequested(now, CANCEL_GRACE)
            moved = await move_attempt(uow, moved, job.attempt, cancel, now)
        case None:
            pass
    return moved


async def move_attempt(
    uow: UnitOfWork,
    stored: StoredJob,
    number: AttemptNumber,
    event: attempts.AttemptEvent,
    now: datetime,
) -> StoredJob:
    """Applies `event` to attempt `number`, then to the job what became of it."""
    found = await uow.attempts.get(stored.id, number)
    before = found.attempt
    if number == stored.job.attempt:
        event = await operations.as_stopped(uow, stored, event, now)
    attempt, effects = attempts.transition(before, event)
    if number == stored.job.attempt and not before.status.is_terminal:
        await operations.attempt_moved(uow, stored, event, now)
    if attempt == before:
        return stored
    await uow.attempts.save(stored.id, attempt)
    await uow.outbox.add(stored.id, effects, now)
    if attempt.status is not before.status:
        await uow.history.add(stored.id, _entry(attempt, event, found, now))
    if attempt.status.is_terminal:
        await _abort_checkpoints(uow, stored, attempt, now)
        go_on = await operations.attempt_ended(uow, stored, attempt, event, now)
        if go_on is not None:
            runner = await uow.runners.of_attempt(stored.id, number) if go_on.keeps_runner else None
            changed = jobs.Changed(now, go_on.reason)
            return await move_job(uow, go_on.stored, changed, now, runner)
    moved = jobs.AttemptMoved(now, attempt, committed_batches(found))
    return await move_job(uow, stored, moved, now)


def committed_batches(found: StoredAttempt) -> dict[str, int]:
    """Region to its last committed batch, as its runner last said or as it was restored."""
    known: list[RestoredRegion | RegionProgress] = [*(found.restored or ())]
    known.extend(found.progress or ())
    return {one.region: one.batch for one in known if one.batch is not None}


async def launch_attempt(
    uow: UnitOfWork, stored: StoredJob, now: datetime, kept_runner: Runner | None = None
) -> None:
    attempt, effects = attempts.launch(
        stored.job.attempt, now, on_kept_runner=kept_runner is not None
    )
    await uow.attempts.add(stored.id, attempt)
    if kept_runner is not None:
        await uow.outbox.forget(stored.id, kept_runner.attempt)
        await uow.runners.save(replace(kept_runner, attempt=attempt.number))
    await uow.outbox.add(stored.id, effects, now)
    await uow.history.add(
        stored.id,
        HistoryEntry(now, "attempt_launching", stored.job.reason, attempt=attempt.number),
    )


async def _save(uow: UnitOfWork, stored: StoredJob, job: jobs.Job, now: datetime) -> StoredJob:
    if job == stored.job:
        return stored
    moved = replace(stored, job=job)
    if job.status is not stored.job.status:
        moved = _enter(moved, now)
        under_way = await uow.operations.under_way(stored.id)
        if under_way is not None and moved.next_checkpoint_at is not None:
            moved = replace(moved, next_checkpoint_at=now)  # a change waits for its proof
        await uow.history.add(
            stored.id, HistoryEntry(now, f"job_{job.status}", job.reason, attempt=job.attempt)
        )
        if job.status is jobs.JobStatus.FINISHED:
            done = DiscardAttempts(AttemptNumber(job.attempt + 1))
            await uow.outbox.add(stored.id, [done], now)
    await uow.jobs.save(moved)
    return moved


def _enter(stored: StoredJob, now: datetime) -> StoredJob:
    """What the shell keeps about a job that has just come into a status."""
    status = stored.job.status
    runs = status is jobs.JobStatus.RUNNING and stored.graph.mode is Mode.STREAMING
    return replace(
        stored,
        status_times={**stored.status_times, status: int(now.timestamp() * 1000)},
        ended_at=now if status.is_terminal else None,
        next_checkpoint_at=now + stored.graph.checkpointing.interval if runs else None,
        failed_checkpoints=0,
        health=Health.HEALTHY,
        health_reason=None,
        health_since=None,
    )


def _entry(
    attempt: attempts.Attempt, event: attempts.AttemptEvent, found: StoredAttempt, now: datetime
) -> HistoryEntry:
    kind, failure = f"attempt_{attempt.status}", attempt.failure
    if failure is None:
        return HistoryEntry(now, kind, type(event).__name__, attempt=attempt.number)
    detail = {
        "failure": failure.kind,
        "restartable": failure.is_restartable,
        "region": failure.region,
        "committed": committed_batches(found),
    }
    return HistoryEntry(now, kind, failure.message, attempt=attempt.number, detail=detail)


async def _abort_checkpoints(
    uow: UnitOfWork, stored: StoredJob, attempt: attempts.Attempt, now: datetime
) -> None:
    detail = f"attempt {attempt.number} ended: {attempt.status}"
    ended = checkpoints.AttemptEnded(now, attempt.number, detail)
    for checkpoint in await uow.checkpoints.in_progress(stored.id):
        aborted, _, effects = checkpoints.transition(checkpoint, ended)
        await uow.checkpoints.save(stored.id, aborted, now)
        await uow.outbox.add(stored.id, effects, now)
        if aborted == checkpoint:
            continue
        why = f"checkpoint {aborted.number} {aborted.aborted_because}: {detail}"
        entry = HistoryEntry(now, "checkpoint_aborted", why, attempt.number, aborted.number)
        await uow.history.add(stored.id, entry)
        if aborted.is_savepoint:
            await operations.savepoint_failed(uow, stored, aborted, now)
