"""Job lifecycle.

    STARTING ──queries started──▶ RUNNING
     ▲   │                          │
     │   ├──────attempt failed──────┤
     │   ▼                          ▼
    RESTARTING ◀──strategy allows── ● ──it does not, or it is no use──▶ FAILED
         │
         └──cancelled──▶ CANCELLED

    STARTING, RUNNING ──rescaled, upgraded or rolled back──▶ STARTING, with the next attempt
    STARTING, RUNNING ──cancel requested──▶ CANCELLING ──attempt ended──▶ CANCELLED
    STARTING, RUNNING, CANCELLING ──all input processed──▶ FINISHED

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
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"
    FINISHED = "finished"
    FAILED = "failed"

    @property
    def is_terminal(self) -> bool:
        return self in (JobStatus.CANCELLED, JobStatus.FINISHED, JobStatus.FAILED)


class Desired(StrEnum):
    RUNNING = "running"
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
class RestartDue:
    at: datetime


@dataclass(frozen=True, slots=True)
class Changed:
    """The attempt has ended so that the job continues with a new revision, or the old one."""

    at: datetime
    reason: str


JobEvent = AttemptMoved | JobCancelRequested | RestartDue | Changed


class AttemptOrder(StrEnum):
    """What has to be done with the attempt after a transition."""

    LAUNCH_NEXT = "launch_next"
    """Launch the new attempt `job.attempt`."""
    CANCEL_CURRENT = "cancel_current"


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
        case AttemptMoved():
            return JobTransition(_follow(job, event))
        case JobCancelRequested():
            return _cancel(job, event)
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
    if job.status is JobStatus.RESTARTING:  # no attempt is alive
        return JobTransition(_move(wanted, JobStatus.CANCELLED, event.reason, event.at))
    cancelling = _move(wanted, JobStatus.CANCELLING, event.reason, event.at)
    return JobTransition(cancelling, AttemptOrder.CANCEL_CURRENT)


def _restart(job: Job, at: datetime) -> JobTransition:
    if job.status is not JobStatus.RESTARTING or job.restart_at is None or at < job.restart_at:
        return JobTransition(job)
    restarted = _move(job, JobStatus.STARTING, f"restarted after: {job.reason}", at)
    return JobTransition(
        replace(restarted, attempt=AttemptNumber(job.attempt + 1)), AttemptOrder.LAUNCH_NEXT
    )


def _go_on(job: Job, event: Changed) -> JobTransition:
    if job.status not in (JobStatus.STARTING, JobStatus.RUNNING):
        return JobTransition(job)
    changed = _move(job, JobStatus.STARTING, event.reason, event.at)
    changed = replace(changed, attempt=AttemptNumber(job.attempt + 1), streak=None)
    return JobTransition(changed, AttemptOrder.LAUNCH_NEXT)


def _move(job: Job, status: JobStatus, reason: str, at: datetime) -> Job:
    return replace(job, status=status, reason=reason, since=at, restart_at=None)
