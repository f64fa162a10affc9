"""Job lifecycle.

    STARTING ──queries started──▶ RUNNING
     ▲   │                          │
     │   ├──────attempt failed──────┤
     │   ▼                          ▼
    RESTARTING ◀──strategy allows── ● ──it does not, or it is no use──▶ FAILED
         │
         └──cancelled──▶ CANCELLED

    STARTING, RUNNING ──pause requested──▶ PAUSING ──attempt ended──▶ PAUSED
    RESTARTING ──pause requested──▶ PAUSED ──cancelled──▶ CANCELLED
    PAUSED ──resume requested──▶ STARTING, with the next attempt
    PAUSING, its pause taken back ──attempt ended──▶ STARTING, with the next attempt
    STARTING, RUNNING ──rescaled, upgraded or rolled back──▶ STARTING, with the next attempt
    STARTING, RUNNING, PAUSING ──cancel requested──▶ CANCELLING ──attempt ended──▶ CANCELLED
    STARTING, RUNNING, PAUSING, CANCELLING ──all input processed──▶ FINISHED

A job has at most one live attempt, and `attempt` is its number: events of other attempts do not
reach this machine. Times are part of the events.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, assert_never

from jobmanager.core.graph.job_graph import RestartStrategy
from jobmanager.core.ids import AttemptNumber
from jobmanager.core.life import circuit_breaker
from jobmanager.core.life.attempt import Attempt, AttemptStatus
from jobmanager.core.life.circuit_breaker import Streak
from jobmanager.core.life.restart import GiveUp, decide, remembered


class JobStatus(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    PAUSING = "pausing"
    PAUSED = "paused"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"
    FINISHED = "finished"
    FAILED = "failed"

    @property
    def is_terminal(self) -> bool:
        return self in (JobStatus.CANCELLED, JobStatus.FINISHED, JobStatus.FAILED)


class Desired(StrEnum):
    RUNNING = "running"
    PAUSED = "paused"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Job:
    status: JobStatus
    desired: Desired
    attempt: AttemptNumber
    """The newest attempt."""
    reason: str
    """Why the job has this status."""
    since: datetime
    restart: RestartStrategy
    failed_at: tuple[datetime, ...] = ()
    """The last failures: as many as the restart strategy may ask for."""
    forgotten_failures: int = 0
    """The number of failures before those."""
    restart_at: datetime | None = None
    """Restarting only."""
    streak: Streak | None = None
    """The last failures, between which no batch was committed."""

    @property
    def failures(self) -> int:
        return self.forgotten_failures + len(self.failed_at)


@dataclass(frozen=True, slots=True)
class AttemptMoved:
    """The job's attempt changed its status."""

    at: datetime
    attempt: Attempt
    committed: Mapping[str, int] = field(default_factory=dict)
    """The last committed batch by region, as far as known."""


@dataclass(frozen=True, slots=True)
class JobCancelRequested:
    at: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class JobPauseRequested:
    at: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class JobResumeRequested:
    at: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class RestartDue:
    at: datetime


@dataclass(frozen=True, slots=True)
class Changed:
    """The attempt has ended so that the job continues with a new revision, or the old one."""

    at: datetime
    reason: str


JobEvent = (
    AttemptMoved
    | JobCancelRequested
    | JobPauseRequested
    | JobResumeRequested
    | RestartDue
    | Changed
)


class AttemptOrder(StrEnum):
    """What has to be done with the attempt after a transition."""

    LAUNCH_NEXT = "launch_next"
    """Launch the new attempt `job.attempt`."""
    CANCEL_CURRENT = "cancel_current"
    PAUSE_CURRENT = "pause_current"
    """As a cancellation, but its runner stays for the next attempt."""
    RELEASE_RUNNER = "release_runner"
    """The attempt has ended, and its runner waits in vain for the next."""


class JobTransition(NamedTuple):
    job: Job
    order: AttemptOrder | None = None


def submit(restart: RestartStrategy, at: datetime) -> JobTransition:
    job = Job(JobStatus.STARTING, Desired.RUNNING, AttemptNumber(1), "submitted", at, restart)
    return JobTransition(job, AttemptOrder.LAUNCH_NEXT)


def transition(job: Job, event: JobEvent) -> JobTransition:
    if job.status.is_terminal:
        return JobTransition(job)
    match event:
        case AttemptMoved() if event.attempt.number != job.attempt:
            return JobTransition(job)
        case AttemptMoved() if job.status is JobStatus.PAUSING:
            return _follow_pause(job, event)
        case AttemptMoved():
            return JobTransition(_follow(job, event))
        case JobCancelRequested():
            return _cancel(job, event)
        case JobPauseRequested():
            return _pause(job, event)
        case JobResumeRequested():
            return _resume(job, event)
        case RestartDue():
            return _restart(job, event.at)
        case Changed():
            return _go_on(job, event)
        case _:
            assert_never(event)


def _follow(job: Job, event: AttemptMoved) -> Job:
    attempt, at = event.attempt, event.at
    match attempt.status:
        case AttemptStatus.RUNNING if job.status is JobStatus.STARTING:
            return _move(job, JobStatus.RUNNING, "all queries are running", at)
        case AttemptStatus.FINISHED:
            return _move(job, JobStatus.FINISHED, attempt.detail or "all input was processed", at)
        case AttemptStatus.CANCELLED | AttemptStatus.FAILED if job.status is JobStatus.CANCELLING:
            return _move(job, JobStatus.CANCELLED, job.reason, at)
        case AttemptStatus.CANCELLED:
            return _move(job, JobStatus.CANCELLED, attempt.detail or job.reason, at)
        case AttemptStatus.FAILED if job.status is not JobStatus.RESTARTING:
            return _fail(job, event)
        case _:
            return job


def _follow_pause(job: Job, event: AttemptMoved) -> JobTransition:
    """However the attempt ends, the job is paused: it has committed what it has committed."""
    attempt = event.attempt
    if not attempt.status.is_terminal or attempt.status is AttemptStatus.FINISHED:
        return JobTransition(_follow(job, event))
    if job.desired is Desired.RUNNING:
        return _launch_next(job, "resumed before it was paused", event.at)
    reason = job.reason
    if attempt.failure is not None:
        reason = f"{reason}; meanwhile attempt {attempt.number} failed: {attempt.failure.message}"
    return JobTransition(_move(job, JobStatus.PAUSED, reason, event.at))


def _fail(job: Job, event: AttemptMoved) -> Job:
    failure, at = event.attempt.failure, event.at
    assert failure is not None
    streak = circuit_breaker.extended(
        job.streak, failure, event.committed, _ran_for(event.attempt, at)
    )
    failed = replace(_with_failure(job, at), streak=streak)
    if not failure.is_restartable:
        reason = f"{failure.message} (a restart would not help: {failure.kind.replace('_', ' ')})"
        return _move(failed, JobStatus.FAILED, reason, at)
    if objection := circuit_breaker.objection(streak, failure):
        return _move(failed, JobStatus.FAILED, objection, at)
    decision = decide(job.restart, failed.failed_at, failed.forgotten_failures)
    if isinstance(decision, GiveUp):
        return _move(failed, JobStatus.FAILED, f"{failure.message} ({decision.reason})", at)
    restarting = _move(failed, JobStatus.RESTARTING, failure.message, at)
    return replace(restarting, restart_at=at + decision.delay)


def _with_failure(job: Job, at: datetime) -> Job:
    kept = tuple(remembered(job.restart, (*job.failed_at, at)))
    return replace(job, failed_at=kept, forgotten_failures=job.failures + 1 - len(kept))


def _ran_for(attempt: Attempt, until: datetime) -> timedelta:
    return until - attempt.running_at if attempt.running_at else timedelta()


def _cancel(job: Job, event: JobCancelRequested) -> JobTransition:
    wanted = replace(job, desired=Desired.CANCELLED)
    if job.status is JobStatus.CANCELLING:
        return JobTransition(wanted)
    if job.status in (JobStatus.RESTARTING, JobStatus.PAUSED):  # no attempt is alive
        order = AttemptOrder.RELEASE_RUNNER if job.status is JobStatus.PAUSED else None
        return JobTransition(_move(wanted, JobStatus.CANCELLED, event.reason, event.at), order)
    cancelling = _move(wanted, JobStatus.CANCELLING, event.reason, event.at)
    return JobTransition(cancelling, AttemptOrder.CANCEL_CURRENT)


def _pause(job: Job, event: JobPauseRequested) -> JobTransition:
    if job.desired is Desired.CANCELLED:
        return JobTransition(job)
    wanted = replace(job, desired=Desired.PAUSED)
    match job.status:
        case JobStatus.PAUSING | JobStatus.PAUSED:
            return JobTransition(wanted)
        case JobStatus.RESTARTING:  # no attempt is alive
            return JobTransition(_move(wanted, JobStatus.PAUSED, event.reason, event.at))
        case _:
            pausing = _move(wanted, JobStatus.PAUSING, event.reason, event.at)
            return JobTransition(pausing, AttemptOrder.PAUSE_CURRENT)


def _resume(job: Job, event: JobResumeRequested) -> JobTransition:
    if job.desired is not Desired.PAUSED:
        return JobTransition(job)
    wanted = replace(job, desired=Desired.RUNNING)
    if job.status is JobStatus.PAUSED:
        return _launch_next(wanted, event.reason, event.at)
    return JobTransition(wanted)


def _launch_next(job: Job, reason: str, at: datetime) -> JobTransition:
    started = _move(job, JobStatus.STARTING, reason, at)
    return JobTransition(
        replace(started, attempt=AttemptNumber(job.attempt + 1)), AttemptOrder.LAUNCH_NEXT
    )


def _restart(job: Job, at: datetime) -> JobTransition:
    if job.status is not JobStatus.RESTARTING or job.restart_at is None or at < job.restart_at:
        return JobTransition(job)
    return _launch_next(job, f"restarted after: {job.reason}", at)


def _go_on(job: Job, event: Changed) -> JobTransition:
    if job.status not in (JobStatus.STARTING, JobStatus.RUNNING):
        return JobTransition(job)
    changed = _move(job, JobStatus.STARTING, event.reason, event.at)
    changed = replace(changed, attempt=AttemptNumber(job.attempt + 1), streak=None)
    return JobTransition(changed, AttemptOrder.LAUNCH_NEXT)


def _move(job: Job, status: JobStatus, reason: str, at: datetime) -> Job:
    return replace(job, status=status, reason=reason, since=at, restart_at=None)
