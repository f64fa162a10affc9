"""Attempt lifecycle: one launch of a job on a runner.

    LAUNCHING ──runner registered──▶ STARTING ──queries started──▶ RUNNING
        │                               │                            │
        └───────────────┬───────────────┴─────────────┬──────────────┘
                 cancel requested                     │
                        ▼                             │
                    CANCELLING                        │
                        └──────────────┬──────────────┘
                                       ▼
                        FINISHED · CANCELLED · FAILED

A pause is a cancellation after which the runner stays for the job's next attempt.
A runner's report after its attempt has ended changes nothing: the answer says that the attempt was
superseded. A runner that exits without a final report has failed, unless it had been told to stop.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, assert_never

from jobmanager.core.ids import AttemptNumber
from jobmanager.core.life.effects import (
    CancelAttempt,
    Effect,
    KillRunner,
    LaunchAttempt,
    PauseAttempt,
    ReleaseRunner,
    StartAttempt,
)
from jobmanager.core.life.failure import Failure, FailureKind
from jobmanager.core.progress import RestoredRegion

KILL_AFTER_GRACE = timedelta(seconds=10)
"""How long after the grace period of a cancellation the process is killed."""


class AttemptStatus(StrEnum):
    LAUNCHING = "launching"
    STARTING = "starting"
    RUNNING = "running"
    CANCELLING = "cancelling"
    FINISHED = "finished"
    CANCELLED = "cancelled"
    FAILED = "failed"

    @property
    def is_terminal(self) -> bool:
        return self in (AttemptStatus.FINISHED, AttemptStatus.CANCELLED, AttemptStatus.FAILED)


@dataclass(frozen=True, slots=True)
class Attempt:
    number: AttemptNumber
    status: AttemptStatus
    launched_at: datetime
    running_at: datetime | None = None
    ended_at: datetime | None = None
    kill_at: datetime | None = None
    """Only while cancelling: when the grace period ends."""
    failure: Failure | None = None
    detail: str | None = None
    """How the attempt ended, if there are details."""
    keeps_runner: bool = False
    """The attempt ended because the job was paused, and its runner stayed for the next."""

    @property
    def is_superseded(self) -> bool:
        """Whether the attempt failed and is replaced: its runner must change nothing any more."""
        return self.status is AttemptStatus.FAILED or (
            self.status is AttemptStatus.CANCELLED and self.failure is not None
        )


@dataclass(frozen=True, slots=True)
class RunnerRegistered:
    at: datetime


@dataclass(frozen=True, slots=True)
class StatePrepared:
    """Every region is restored, and repartitioned if necessary."""

    at: datetime
    detail: str


@dataclass(frozen=True, slots=True)
class QueriesStarted:
    at: datetime
    restored: Sequence[RestoredRegion] | None = None
    """What each region was restored from, and why; None: the runner did not report it."""


@dataclass(frozen=True, slots=True)
class InputEnded:
    """All input was read, and output waits for a checkpoint that covers it."""

    at: datetime


@dataclass(frozen=True, slots=True)
class CancelRequested:
    at: datetime
    grace: timedelta


@dataclass(frozen=True, slots=True)
class PauseRequested:
    """As a cancellation, but the runner stays for the job's next attempt."""

    at: datetime
    grace: timedelta
    keep_for: timedelta
    """How long the runner waits for that."""


@dataclass(frozen=True, slots=True)
class AttemptFinished:
    at: datetime


@dataclass(frozen=True, slots=True)
class AttemptStopped:
    """The attempt ended between two batches, with its savepoint complete."""

    at: datetime
    detail: str
    is_cancellation: bool = False
    keeps_runner: bool = False
    """Whether the runner waits for the job's next attempt."""


@dataclass(frozen=True, slots=True)
class AttemptCancelled:
    at: datetime
    keeps_runner: bool = False
    """Whether the runner waits for the job's next attempt."""


@dataclass(frozen=True, slots=True)
class AttemptFailed:
    at: datetime
    failure: Failure


@dataclass(frozen=True, slots=True)
class RunnerExited:
    """The runner's process has ended."""

    at: datetime
    description: str


@dataclass(frozen=True, slots=True)
class RunnerWentSilent:
    """There was no heartbeat for too long."""

    at: datetime
    silence: timedelta


@dataclass(frozen=True, slots=True)
class StartTimedOut:
    """The attempt does not begin to run, and its runner moves no data for too long."""

    at: datetime
    idle: timedelta


@dataclass(frozen=True, slots=True)
class GraceEnded:
    at: datetime


AttemptEvent = (
    RunnerRegistered
    | StatePrepared
    | QueriesStarted
    | InputEnded
    | CancelRequested
    | PauseRequested
    | AttemptFinished
    | AttemptStopped
    | AttemptCancelled
    | AttemptFailed
    | RunnerExited
    | RunnerWentSilent
    | StartTimedOut
    | GraceEnded
)


class AttemptTransition(NamedTuple):
    attempt: Attempt
    effects: tuple[Effect, ...] = ()


def launch(
    number: AttemptNumber, at: datetime, *, on_kept_runner: bool = False
) -> AttemptTransition:
    """Make a new attempt. Its runner gets the directive to start when it registers, or at once if
    the previous attempt left its runner waiting.
    """
    if on_kept_runner:
        started = Attempt(number, AttemptStatus.STARTING, launched_at=at)
        return AttemptTransition(started, (StartAttempt(number),))
    attempt = Attempt(number, AttemptStatus.LAUNCHING, launched_at=at)
    return AttemptTransition(attempt, (LaunchAttempt(number), StartAttempt(number)))


def transition(attempt: Attempt, event: AttemptEvent) -> AttemptTransition:
    if attempt.status.is_terminal:
        return AttemptTransition(attempt)
    match event:
        case RunnerRegistered() if attempt.status is AttemptStatus.LAUNCHING:
            return AttemptTransition(replace(attempt, status=AttemptStatus.STARTING))
        case QueriesStarted() if attempt.status is not AttemptStatus.CANCELLING:
            running_at = attempt.running_at or event.at
            return AttemptTransition(
                replace(attempt, status=AttemptStatus.RUNNING, running_at=running_at)
            )
        case RunnerRegistered() | StatePrepared() | QueriesStarted() | InputEnded():
            return AttemptTransition(attempt)  # a repetition, or an event that no longer matters
        case CancelRequested():
            return _cancel(attempt, event)
        case PauseRequested():
            return _pause(attempt, event)
        case AttemptFinished():
            return _end(attempt, AttemptStatus.FINISHED, event.at)
        case AttemptStopped():
            status = AttemptStatus.FINISHED
            if event.is_cancellation or attempt.status is AttemptStatus.CANCELLING:
                status = AttemptStatus.CANCELLED
            stopped, effects = _end(attempt, status, event.at)
            kept = event.keeps_runner and status is AttemptStatus.FINISHED
            return AttemptTransition(replace(stopped, detail=event.detail), () if kept else effects)
        case AttemptCancelled(keeps_runner=True):
            ended, _ = _end(attempt, AttemptStatus.CANCELLED, event.at)
            return AttemptTransition(replace(ended, keeps_runner=True))
        case AttemptCancelled():
            return _end(attempt, AttemptStatus.CANCELLED, event.at)
        case AttemptFailed():
            return _fail(attempt, event.failure, event.at)
        case RunnerExited():
            return _fail(
                attempt, _lost(f"the runner's process ended: {event.description}"), event.at
            )
        case RunnerWentSilent():
            seconds = event.silence.total_seconds()
            return _fail(attempt, _lost(f"no heartbeat for {seconds:.0f} s"), event.at)
        case StartTimedOut():
            if attempt.status not in (AttemptStatus.LAUNCHING, AttemptStatus.STARTING):
                return AttemptTransition(attempt)  # it has begun to run meanwhile
            seconds = event.idle.total_seconds()
            message = (
                f"the attempt did not begin to run, and its runner has read and written nothing "
                f"for {seconds:.0f} s: look at the runner's log, and whether Spark's master has "
                "free slots"
            )
            return _fail(attempt, Failure(FailureKind.INFRASTRUCTURE, message), event.at)
        case GraceEnded():
            return _kill(attempt, event)
        case _:
            assert_never(event)


def _cancel(attempt: Attempt, event: CancelRequested) -> AttemptTransition:
    if attempt.status is AttemptStatus.CANCELLING:
        return AttemptTransition(attempt)
    kill_at = event.at + event.grace + KILL_AFTER_GRACE
    cancelling = replace(attempt, status=AttemptStatus.CANCELLING, kill_at=kill_at)
    return AttemptTransition(cancelling, (CancelAttempt(attempt.number, event.grace),))


def _pause(attempt: Attempt, event: PauseRequested) -> AttemptTransition:
    if attempt.status is AttemptStatus.CANCELLING:
        return AttemptTransition(attempt)
    kill_at = event.at + event.grace + KILL_AFTER_GRACE
    cancelling = replace(attempt, status=AttemptStatus.CANCELLING, kill_at=kill_at)
    order = PauseAttempt(attempt.number, event.grace, event.keep_for)
    return AttemptTransition(cancelling, (order,))


def _end(attempt: Attempt, status: AttemptStatus, at: datetime) -> AttemptTransition:
    ended = replace(attempt, status=status, ended_at=at, kill_at=None)
    return AttemptTransition(ended, (ReleaseRunner(attempt.number),))


def _fail(attempt: Attempt, failure: Failure, at: datetime) -> AttemptTransition:
    """Fail the attempt. A failure also ends a cancellation, since the attempt has ended."""
    if attempt.status is AttemptStatus.CANCELLING:
        status = AttemptStatus.CANCELLED
    else:
        status = AttemptStatus.FAILED
    ended = replace(attempt, status=status, ended_at=at, kill_at=None, failure=failure)
    return AttemptTransition(ended, (KillRunner(attempt.number, failure.message),))


def _kill(attempt: Attempt, event: GraceEnded) -> AttemptTransition:
    if attempt.kill_at is None or event.at < attempt.kill_at:
        return AttemptTransition(attempt)
    ended = replace(attempt, status=AttemptStatus.CANCELLED, ended_at=event.at, kill_at=None)
    return AttemptTransition(
        ended, (KillRunner(attempt.number, "the runner did not stop in time"),)
    )


def _lost(message: str) -> Failure:
    return Failure(FailureKind.LOST, message)
