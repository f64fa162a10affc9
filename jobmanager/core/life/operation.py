"""Operation lifecycle: a durable request with phases.

    IN_PROGRESS ──the last phase ended────────────────────▶ COMPLETED
         ├────────a phase failed, nothing had changed yet─▶ FAILED
         └────────a phase failed after the stop───────────▶ ROLLED_BACK

A savepoint has one phase. A stop has two: the savepoint, then the end of the attempt, which has
processed nothing after the savepoint. A rescale and an upgrade continue: a new attempt restores the
savepoint with the new graph or parallelism, starts, and has to complete a checkpoint. Any failure
before that checkpoint rolls the operation back. An upgrade that changes only `meta` is complete as
soon as it is stored: it has one phase and no savepoint.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from jobmanager.core.durations import milliseconds


class OperationKind(StrEnum):
    SAVEPOINT = "savepoint"
    STOP = "stop"
    CANCEL = "cancel"
    """A cancellation after a savepoint, as with Flink's `cancel-job`."""
    RESCALE = "rescale"
    UPGRADE = "upgrade"

    @property
    def is_change(self) -> bool:
        """Whether the job continues after its stop, with another graph or parallelism."""
        return self in (OperationKind.RESCALE, OperationKind.UPGRADE)


class OperationStatus(StrEnum):
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    ROLLED_BACK = "rolled_back"
    """The job runs again with its earlier graph and parallelism."""


SAVEPOINT, STOP, START, META = "savepoint", "stop", "start", "meta"

PHASES = {
    OperationKind.SAVEPOINT: (SAVEPOINT,),
    OperationKind.STOP: (SAVEPOINT, STOP),
    OperationKind.CANCEL: (SAVEPOINT, STOP),
    OperationKind.RESCALE: (SAVEPOINT, STOP, "repartition", START, "first_batch"),
    OperationKind.UPGRADE: (SAVEPOINT, STOP, "restore", START, "first_checkpoint"),
}
_POINT_OF_CHANGE = 2
"""The phase from which on the job has its new graph or parallelism."""


@dataclass(frozen=True, slots=True)
class OperationPhase:
    name: str
    started_at: datetime
    ended_at: datetime | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    kind: OperationKind
    phases: tuple[OperationPhase, ...]
    """The phases that have begun, in order."""
    status: OperationStatus = OperationStatus.IN_PROGRESS
    error: str | None = None
    ended_at: datetime | None = None

    @property
    def phase(self) -> str:
        return self.phases[-1].name

    @property
    def timings(self) -> dict[str, int]:
        """Return the duration, in milliseconds, of each phase that has ended."""
        return {
            one.name: milliseconds(one.ended_at - one.started_at)
            for one in self.phases
            if one.ended_at is not None
        }

    @property
    def is_stopping(self) -> bool:
        """Whether the present attempt is being stopped."""
        ends = self.kind is not OperationKind.SAVEPOINT
        in_progress = self.status is OperationStatus.IN_PROGRESS
        return ends and in_progress and len(self.phases) <= _POINT_OF_CHANGE

    @property
    def has_changed_job(self) -> bool:
        """Whether the present attempt has the new graph or parallelism."""
        return len(self.phases) > _POINT_OF_CHANGE

    @property
    def is_in_last_phase(self) -> bool:
        return len(self.phases) == len(PHASES[self.kind])


@dataclass(frozen=True, slots=True)
class PhaseEnded:
    at: datetime
    name: str
    detail: str


@dataclass(frozen=True, slots=True)
class PhaseFailed:
    at: datetime
    name: str
    error: str


@dataclass(frozen=True, slots=True)
class Abandoned:
    """The operation was given up, in any phase, because the job was cancelled."""

    at: datetime
    error: str


OperationEvent = PhaseEnded | PhaseFailed | Abandoned


def begin(kind: OperationKind, at: datetime) -> Operation:
    return Operation(kind, (OperationPhase(PHASES[kind][0], at),))


def done_at_once(kind: OperationKind, phase: str, detail: str, at: datetime) -> Operation:
    """Return an operation that is complete, because it had to stop nothing."""
    ended = OperationPhase(phase, at, at, detail)
    return Operation(kind, (ended,), OperationStatus.COMPLETED, ended_at=at)


def transition(operation: Operation, event: OperationEvent) -> Operation:
    """Apply an event. Events of a phase other than the present phase, or of an operation that has
    ended, change nothing.
    """
    if operation.status is not OperationStatus.IN_PROGRESS:
        return operation
    match event:
        case Abandoned():
            return _end(operation, OperationStatus.FAILED, event.at, event.error)
        case _ if event.name != operation.phase:
            return operation
        case PhaseFailed():
            changed = operation.has_changed_job
            status = OperationStatus.ROLLED_BACK if changed else OperationStatus.FAILED
            return _end(operation, status, event.at, event.error)
        case PhaseEnded():
            return _go_on(_close(operation, event.at, event.detail), event.at)


def _go_on(operation: Operation, at: datetime) -> Operation:
    following = PHASES[operation.kind][len(operation.phases) :]
    if following:
        return replace(operation, phases=(*operation.phases, OperationPhase(following[0], at)))
    return replace(operation, status=OperationStatus.COMPLETED, ended_at=at)


def _end(operation: Operation, status: OperationStatus, at: datetime, error: str) -> Operation:
    closed = _close(operation, at, error)
    return replace(closed, status=status, error=error, ended_at=at)


def _close(operation: Operation, at: datetime, detail: str) -> Operation:
    ended = replace(operation.phases[-1], ended_at=at, detail=detail)
    return replace(operation, phases=(*operation.phases[:-1], ended))
