"""When a checkpoint is taken, and what follows from its completion or its failure.

A completed checkpoint sets the time of the next, resets the count of failures in a row and releases
old checkpoints. A failure counts: a job with more checkpoint failures in a row than it tolerates is
restarted.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from jobmanager.core.errors import CheckpointNotFound, JobNotRunning, UnsupportedRequest
from jobmanager.core.graph.job_graph import Mode
from jobmanager.core.ids import CheckpointNumber, SubtaskRef
from jobmanager.core.life import attempt_rules, operation_rules
from jobmanager.core.life import checkpoint as checkpoints
from jobmanager.core.life.attempt import AttemptFailed
from jobmanager.core.life.checkpoint import (
    AckOutcome,
    BarrierAcked,
    BarrierDeclined,
    Checkpoint,
    CheckpointExpired,
    CheckpointKind,
    CheckpointStatus,
    SavepointOrder,
)
from jobmanager.core.life.draft import Announcement, Draft, Life, savepoint_of
from jobmanager.core.life.effects import DiscardAttempts, DiscardCheckpoint, DisposeSavepoint
from jobmanager.core.life.events import CheckpointDue, CheckpointNews, CheckpointRequested
from jobmanager.core.life.failure import Failure, FailureKind
from jobmanager.core.life.job import JobStatus
from jobmanager.core.life.records import HistoryEntry, StoredJob
from jobmanager.core.life.retention import superfluous
from jobmanager.core.plan import known_plans
from jobmanager.core.snapshots.layout import MANIFEST
from jobmanager.core.snapshots.storage_uri import below

_COMPLETE = (AckOutcome.COMPLETED, AckOutcome.ALREADY_RECORDED)


def take_requested(draft: Draft, event: CheckpointRequested) -> None:
    """Trigger a checkpoint now, in addition to the periodic checkpoints."""
    job = draft.life.job
    if job.graph.mode is Mode.BATCH:
        raise UnsupportedRequest("a batch job has no checkpoints: it is run again as a whole")
    if job.job.status is not JobStatus.RUNNING:
        raise JobNotRunning(
            f"job {job.id.hex} is {job.job.status}: only a running job takes checkpoints"
        )
    trigger(draft, CheckpointKind.REQUESTED, event.at)


def take_due(draft: Draft, event: CheckpointDue) -> None:
    """Trigger the periodic checkpoint, if it is due and may be taken."""
    if is_due(draft.life, event.at):
        trigger(draft, CheckpointKind.PERIODIC, event.at)


def is_due(life: Life, now: datetime) -> bool:
    operation = life.operation
    is_stopping = operation is not None and operation.operation.is_stopping
    return is_time(life.job, now) and not is_stopping and not life.checkpoints_under_way


def is_time(job: StoredJob, now: datetime) -> bool:
    due = job.next_checkpoint_at
    return job.job.status is JobStatus.RUNNING and due is not None and due <= now


def trigger(
    draft: Draft, kind: CheckpointKind, now: datetime, order: SavepointOrder | None = None
) -> CheckpointNumber:
    """Add the checkpoint with its awaited set, and send its barrier."""
    job, now = draft.life.job, _in_order(draft.life, now)
    number, settings = job.next_checkpoint, job.graph.checkpointing
    awaited = known_plans.awaited(job.graph, job.parallelism)
    proves = kind is CheckpointKind.PERIODIC and operation_rules.is_on_trial(draft.life)
    checkpoint, _, effects = checkpoints.trigger(
        number,
        job.job.attempt,
        kind,
        awaited,
        now,
        now + settings.timeout,
        order,
        awaits_new_batch=proves,
    )
    draft.put_checkpoint(checkpoint)
    draft.history.append(
        Announcement("checkpoint_triggered", _facts(job.graph.name, checkpoint, now, awaited))
    )
    draft.effects += effects
    following = job.next_checkpoint_at
    if kind is CheckpointKind.PERIODIC:
        following = now + settings.interval
    draft.change_job(next_checkpoint=CheckpointNumber(number + 1), next_checkpoint_at=following)
    return number


def _in_order(life: Life, now: datetime) -> datetime:
    """The time of a trigger. The clock was read before the job was locked, and others may have come
    first: checkpoints have their numbers in the order of time.
    """
    earlier = [one.triggered_at for one in life.checkpoints.values()]
    running_at = life.attempt.attempt.running_at
    return max([now, *earlier, *([running_at] if running_at else [])])


def take_news(draft: Draft, news: CheckpointNews) -> AckOutcome:
    before = draft.life.checkpoints.get(news.checkpoint)
    if before is None:
        job_id = draft.life.job.id
        raise CheckpointNotFound(f"job {job_id.hex} has no checkpoint {news.checkpoint}")
    match news.event:
        case BarrierAcked():
            return _acknowledge(draft, before, news.event)
        case BarrierDeclined() | CheckpointExpired():
            return _abort(draft, before, news.event)


def _acknowledge(draft: Draft, before: Checkpoint, ack: BarrierAcked) -> AckOutcome:
    if before.is_savepoint:  # a savepoint is in a directory of its own, not in the job's
        directory = savepoint_of(draft.life, before.number).directory
        ack = replace(ack, stored=replace(ack.stored, manifest=below(directory, MANIFEST)))
        if before.status is CheckpointStatus.ABORTED:
            # Too late: the user was told that the savepoint failed, so it is deleted.
            draft.effects.append(DisposeSavepoint(directory))
    checkpoint, outcome, effects = checkpoints.transition(before, ack)
    assert outcome is not None
    if checkpoint != before:
        draft.put_checkpoint(checkpoint)
        told = _facts(draft.life.job.graph.name, checkpoint, ack.at, ack.snapshots)
        draft.history.append(Announcement("checkpoint_ack", told))
    if outcome is AckOutcome.COMPLETED:
        _complete(draft, checkpoint, ack)
    if outcome in _COMPLETE and _may_be_rolled_back(draft.life, checkpoint):
        return AckOutcome.RECORDED
    draft.effects += effects
    return outcome


def _may_be_rolled_back(life: Life, checkpoint: Checkpoint) -> bool:
    """Whether the job may yet go back behind a checkpoint that is complete: it was changed, and has
    not proved itself. So its runner is not told, and does not show output that waits for the
    checkpoint: it could be withdrawn again. The checkpoint that proves the change shows all.
    """
    operation = life.operation
    is_on_trial = operation is not None and operation.operation.has_changed_job
    return is_on_trial and not checkpoint.is_savepoint


def _complete(draft: Draft, checkpoint: Checkpoint, ack: BarrierAcked) -> None:
    now = ack.at
    if checkpoint.is_savepoint:
        operation_rules.complete_savepoint(draft, checkpoint, now)
        return
    job = draft.life.job
    pause = now + job.graph.checkpointing.min_pause
    following = max(job.next_checkpoint_at, pause) if job.next_checkpoint_at else None
    draft.change_job(failed_checkpoints=0, next_checkpoint_at=following)
    operation_rules.follow_checkpoint(draft, checkpoint, ack)
    _retain(draft, checkpoint)


def _retain(draft: Draft, checkpoint: Checkpoint) -> None:
    """Discard old checkpoints: from this step on no restore uses them. A checkpoint that another
    job starts from is kept until that job has a checkpoint of its own.
    """
    life = draft.life
    restorable = tuple(sorted({*life.restorable, checkpoint.number}))
    old = superfluous(restorable, life.job.graph.checkpointing.retained)
    discarded = [number for number in old if number not in life.pinned]
    draft.life = replace(
        life, restorable=tuple(number for number in restorable if number not in discarded)
    )
    draft.effects += (DiscardCheckpoint(number, was_completed=True) for number in discarded)
    if checkpoint.attempt > 1 and restorable[-1] == checkpoint.number:
        draft.effects.append(DiscardAttempts(checkpoint.attempt))


def _abort(
    draft: Draft, before: Checkpoint, event: BarrierDeclined | CheckpointExpired
) -> AckOutcome:
    checkpoint, outcome, effects = checkpoints.transition(before, event)
    if checkpoint != before:
        draft.put_checkpoint(checkpoint)
        draft.effects += effects
        _count_failure(draft, checkpoint, event.at)
    return outcome or AckOutcome.TOO_LATE


def _count_failure(draft: Draft, checkpoint: Checkpoint, now: datetime) -> None:
    assert checkpoint.aborted_because is not None
    why = f"checkpoint {checkpoint.number} {checkpoint.aborted_because}: {checkpoint.detail}"
    draft.history.append(
        HistoryEntry(now, "checkpoint_aborted", why, checkpoint.attempt, checkpoint.number)
    )
    if checkpoint.is_savepoint:
        operation_rules.fail_savepoint(draft, checkpoint, now)
    counts = checkpoint.kind is CheckpointKind.PERIODIC
    if not counts or checkpoint.aborted_because.is_news_of_attempt:
        # A query that failed first declines the barrier. Failing the attempt for that would hide
        # the cause, which the runner is about to report.
        return
    operation = draft.life.operation
    if operation is not None and operation.operation.is_stopping:
        return  # a barrier that reached a job which is ending is not a failure
    job = draft.life.job
    failures = job.failed_checkpoints + 1
    draft.change_job(failed_checkpoints=failures)
    # a rescaled or upgraded job without a checkpoint is rolled back at the first failure
    tolerated = 0 if operation else job.graph.checkpointing.tolerable_failures
    if failures > tolerated and checkpoint.attempt == job.job.attempt:
        failure = Failure(FailureKind.CHECKPOINTS, f"{why} ({tolerated} failures are tolerated)")
        attempt_rules.move_attempt(draft, checkpoint.attempt, AttemptFailed(now, failure))


def _facts(
    name: str, checkpoint: Checkpoint, now: datetime, subtasks: Iterable[SubtaskRef]
) -> dict[str, Any]:
    """Announce that a checkpoint awaits these subtasks, or that these have acked."""
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
