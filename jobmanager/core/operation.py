"""Operation lifecycle: a durable request with phases.

    IN_PROGRESS ──the last phase ended──▶ COMPLETED
         └────────a phase failed────────▶ FAILED

A savepoint has one phase. A stop has two: the savepoint, then the end of the
attempt, which has not processed anything after it.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum


class OperationKind(StrEnum):
    SAVEPOINT = "savepoint"
    STOP = "stop"
    CANCEL = "cancel"
    """With a savepoint first, as Flink's `cancel-job`."""


class OperationStatus(StrEnum):
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"


PHASES = {
    OperationKind.SAVEPOINT: ("savepoint",),
    OperationKind.STOP: ("savepoint", "stop"),
    OperationKind.CANCEL: ("savepoint", "stop"),
}


@dataclass(frozen=True, slots=True)
class Phase:
    name: str
    started_at: datetime
    ended_at: datetime | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    kind: OperationKind
    phases: tuple[Phase, ...]
    """Those that have begun, in order."""
    status: OperationStatus = OperationStatus.IN_PROGRESS
    error: str | None = None
    ended_at: datetime | None = None

    @property
    def phase(self) -> str:
        return self.phases[-1].name


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


def begin(kind: OperationKind, at: datetime) -> Operation:
    return Operation(kind, (Phase(PHASES[kind][0], at),))


def transition(operation: Operation, event: PhaseEnded | PhaseFailed) -> Operation:
    """News of a phase that is not the present one, or of an operation that ended, is nothing."""
    if operation.status is not OperationStatus.IN_PROGRESS or event.name != operation.phase:
        return operation
    detail = event.detail if isinstance(event, PhaseEnded) else event.error
    ended = replace(operation.phases[-1], ended_at=event.at, detail=detail)
    operation = replace(operation, phases=(*operation.phases[:-1], ended))
    if isinstance(event, PhaseFailed):
        return replace(
            operation, status=OperationStatus.FAILED, error=event.error, ended_at=event.at
        )
    following = PHASES[operation.kind][len(operation.phases) :]
    if following:
        return replace(operation, phases=(*operation.phases, Phase(following[0], event.at)))
    return replace(operation, status=OperationStatus.COMPLETED, ended_at=event.at)
