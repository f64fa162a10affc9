"""Rules that keep a job, its attempt, its checkpoints and its operations consistent.

The state machines decide; these rules pass the result of one machine to the others within one step,
so that no reader ever sees a running job whose attempt has ended.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime

from jobmanager.core.errors import JobNotFound
from jobmanager.core.graph.job_graph import Mode
from jobmanager.core.ids import AttemptNumber
from jobmanager.core.life import attempt as attempts
from jobmanager.core.life import checkpoint as checkpoints
from jobmanager.core.life import job as jobs
from jobmanager.core.life import operation_rules
from jobmanager.core.life.attempt import Attempt, AttemptEvent, AttemptFailed, RunnerExited
from jobmanager.core.life.draft import Draft, Life
from jobmanager.core.life.effects import (
    DiscardAttempts,
    DismissRunner,
    HandOverRunner,
    ReleaseRunner,
)
from jobmanager.core.life.events import (
    CANCEL_GRACE,
    KEEP_PAUSED_RUNNER,
    PAUSE_GRACE,
    HeartbeatReceived,
    LaunchFailed,
    RunnerGivenUp,
    RunnerLeft,
)
from jobmanager.core.life.failure import Failure, FailureKind
from jobmanager.core.life.health import Health
from jobmanager.core.life.heartbeat import Heard, hear
from jobmanager.core.life.records import HistoryEntry, StoredAttempt
from jobmanager.core.life.reported_progress import committed_batches
from jobmanager.core.progress import RestoredRegion


def move_attempt(draft: Draft, number: AttemptNumber, event: AttemptEvent) -> None:
    """Apply the event to attempt `number`, then the attempt's change to the job."""
    found = attempt_of(draft.life, number)
    if found is None or found.attempt.status.is_terminal:
        return  # an event about an attempt that has ended changes nothing
    is_newest = number == draft.life.job.job.attempt
    found = _noted(draft, found, event)
    before = found.attempt
    if is_newest:
        event = _with_kept_runner(draft.life, operation_rules.as_stopped(draft.life, event))
        operation_rules.follow_start(draft, event)
    attempt, effects = attempts.transition(before, event)
    if attempt == before:
        return
    draft.put_attempt(replace(found, attempt=attempt))
    draft.effects += effects
    if attempt.status is not before.status:
        draft.history.append(_entry(found, attempt, event))
    if attempt.status.is_terminal:
        _abort_checkpoints(draft, attempt, event.at)
        go_on = operation_rules.follow_end(draft, attempt, event)
        if go_on is not None:
            changed = jobs.Changed(event.at, go_on.reason)
            move_job(draft, changed, keeps_runner=go_on.keeps_runner)
            return
    moved = jobs.AttemptMoved(event.at, attempt, committed_batches(found))
    move_job(draft, moved, keeps_runner=attempt.keeps_runner)


def resume_job(draft: Draft, event: jobs.JobResumeRequested) -> None:
    """Let a paused job continue, on the runner that has waited for it if that is still there."""
    life = draft.life
    waits = life.attempt.attempt.keeps_runner and life.has_live_runner
    move_job(draft, event, keeps_runner=waits)


def move_job(draft: Draft, event: jobs.JobEvent, *, keeps_runner: bool = False) -> None:
    """Apply the event to the job, with its consequences. A new attempt gets the runner of the
    previous attempt, if the job keeps that runner.
    """
    before = draft.life.job.job
    job, order = jobs.transition(before, event)
    if job != before:
        draft.change_job(job=job)
        if job.status is not before.status:
            _enter(draft, event.at)
    match order:
        case jobs.AttemptOrder.LAUNCH_NEXT:
            launch_attempt(draft, event.at, keeps_runner=keeps_runner)
        case jobs.AttemptOrder.CANCEL_CURRENT:
            move_attempt(draft, job.attempt, attempts.CancelRequested(event.at, CANCEL_GRACE))
        case jobs.AttemptOrder.PAUSE_CURRENT:
            asked = attempts.PauseRequested(event.at, PAUSE_GRACE, KEEP_PAUSED_RUNNER)
            move_attempt(draft, job.attempt, asked)
        case jobs.AttemptOrder.RELEASE_RUNNER:
            if draft.life.attempt.attempt.keeps_runner and draft.life.has_live_runner:
                draft.effects.append(ReleaseRunner(job.attempt))
        case None:
            pass


def _with_kept_runner(life: Life, event: AttemptEvent) -> AttemptEvent:
    """Return the event; the runner of an attempt that ended because of a pause stays."""
    is_pausing = life.job.job.status is jobs.JobStatus.PAUSING and life.has_live_runner
    if isinstance(event, attempts.AttemptCancelled) and is_pausing:
        return replace(event, keeps_runner=True)
    return event


def launch_attempt(draft: Draft, now: datetime, *, keeps_runner: bool = False) -> None:
    job = draft.life.job
    attempt, effects = attempts.launch(job.job.attempt, now, on_kept_runner=keeps_runner)
    draft.put_attempt(StoredAttempt(job.id, attempt, None, None, None))
    draft.life = replace(draft.life, has_live_runner=keeps_runner)
    if keeps_runner:
        draft.effects.append(HandOverRunner(AttemptNumber(attempt.number - 1), attempt.number))
    draft.effects += effects
    draft.history.append(HistoryEntry(now, "attempt_launching", job.job.reason, attempt.number))


def fail_launch(draft: Draft, event: LaunchFailed) -> None:
    message = f"no runner could be started: {event.error}"
    failure = Failure(FailureKind.INFRASTRUCTURE, message)
    move_attempt(draft, event.attempt, AttemptFailed(event.at, failure))


def lose_runner(draft: Draft, event: RunnerLeft) -> None:
    """Apply the runner's last report, if it wrote one to a file, then the exit of its process."""
    if event.attempt == draft.life.job.job.attempt:
        draft.life = replace(draft.life, has_live_runner=False)
    if event.last_word is not None:
        move_attempt(draft, event.last_word.attempt, event.last_word.event)
    move_attempt(draft, event.attempt, RunnerExited(event.at, event.description))
    draft.effects.append(DismissRunner(event.attempt, event.description))


def give_runner_up(draft: Draft, event: RunnerGivenUp) -> None:
    """Give up a runner: if it still exists, it can change nothing, and ends at its next call."""
    found = attempt_of(draft.life, event.attempt)
    if found is not None and not found.attempt.status.is_terminal:
        return  # the runner was given another attempt meanwhile
    if event.attempt == draft.life.job.job.attempt:
        draft.life = replace(draft.life, has_live_runner=False)
    description = f"presumed to have ended: {event.host} is out of reach"
    draft.effects.append(DismissRunner(event.attempt, description))


def take_heartbeat(draft: Draft, event: HeartbeatReceived) -> None:
    found = attempt_of(draft.life, event.attempt)
    if found is None:
        return
    heard = hear(found.attempt, event.spoken_of, has_progress=bool(event.regions))
    if heard.has_news:
        draft.put_attempt(replace(found, progress=event.regions, progress_at=event.at))
    if heard is Heard.STARTED:
        move_attempt(draft, event.attempt, attempts.QueriesStarted(event.at))


def attempt_of(life: Life, number: AttemptNumber) -> StoredAttempt | None:
    """Return the attempt; None: it ended earlier and was not loaded. Raises `JobNotFound`."""
    if not 1 <= number <= life.job.job.attempt:
        raise JobNotFound(f"job {life.job.id.hex} has no attempt {number}")
    return life.attempts.get(number)


def _noted(draft: Draft, found: StoredAttempt, event: AttemptEvent) -> StoredAttempt:
    """Note the details that an event carries, in addition to the attempt's new status."""
    match event:
        case attempts.RunnerRegistered() if found.attempt.number == draft.life.job.job.attempt:
            draft.life = replace(draft.life, has_live_runner=True)
        case attempts.QueriesStarted() if event.restored is not None:
            if event.restored and not found.restored and found.attempt.number > 1:
                draft.history.append(
                    _restored_entry(found.attempt.number, event.at, event.restored)
                )
            found = replace(found, restored=event.restored)
            draft.put_attempt(found)
        case attempts.InputEnded() if found.attempt.number == draft.life.job.job.attempt:
            if draft.life.job.next_checkpoint_at is not None:  # None: the job does not run
                draft.change_job(next_checkpoint_at=event.at)
        case _:
            pass
    return found


def _enter(draft: Draft, now: datetime) -> None:
    """Update the job's records after it entered a new status."""
    stored = draft.life.job
    job = stored.job
    runs = job.status is jobs.JobStatus.RUNNING and stored.graph.mode is Mode.STREAMING
    due = now + stored.graph.checkpointing.interval if runs else None
    if due is not None and draft.life.operation is not None:
        due = now  # a rescale or upgrade waits for its first checkpoint
    draft.change_job(
        status_times={**stored.status_times, job.status: int(now.timestamp() * 1000)},
        ended_at=now if job.status.is_terminal else None,
        next_checkpoint_at=due,
        failed_checkpoints=0,
        health=Health.HEALTHY,
        health_reason=None,
        health_since=None,
    )
    draft.history.append(HistoryEntry(now, f"job_{job.status}", job.reason, job.attempt))
    if job.status is jobs.JobStatus.FINISHED:
        draft.effects.append(DiscardAttempts(AttemptNumber(job.attempt + 1)))


def _entry(before: StoredAttempt, attempt: Attempt, event: AttemptEvent) -> HistoryEntry:
    kind, failure = f"attempt_{attempt.status}", attempt.failure
    if failure is None:
        return HistoryEntry(event.at, kind, type(event).__name__, attempt.number)
    detail = {
        "failure": failure.kind,
        "restartable": failure.is_restartable,
        "region": failure.region,
        "committed": committed_batches(before),
    }
    return HistoryEntry(event.at, kind, failure.message, attempt.number, detail=detail)


def _restored_entry(
    attempt: AttemptNumber, at: datetime, restored: Sequence[RestoredRegion]
) -> HistoryEntry:
    """The state from which a later attempt continues: it explains why rows were withdrawn."""
    why = "; ".join(f"{one.region}: {one.why}" for one in restored)
    detail = {"regions": {one.region: asdict(one) for one in restored}}
    return HistoryEntry(at, "attempt_restored", why, attempt, detail=detail)


def _abort_checkpoints(draft: Draft, attempt: Attempt, now: datetime) -> None:
    detail = f"attempt {attempt.number} ended: {attempt.status}"
    ended = checkpoints.AttemptEnded(now, attempt.number, detail)
    for checkpoint in draft.life.checkpoints_under_way:
        aborted, _, effects = checkpoints.transition(checkpoint, ended)
        if aborted == checkpoint:
            continue
        draft.put_checkpoint(aborted)
        draft.effects += effects
        why = f"checkpoint {aborted.number} {aborted.aborted_because}: {detail}"
        entry = HistoryEntry(now, "checkpoint_aborted", why, attempt.number, aborted.number)
        draft.history.append(entry)
        if aborted.is_savepoint:
            operation_rules.fail_savepoint(draft, aborted, now)
