"""The life of a job as a value, and its draft while an event is applied.

`life.step` makes a draft, the rules of one event change it, and then it is dropped. It never leaves
the step, so the step is a pure function.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from jobmanager.core.ids import AttemptNumber, CheckpointNumber, OperationId, SavepointId
from jobmanager.core.life.checkpoint import AckOutcome, Checkpoint, CheckpointStatus
from jobmanager.core.life.effects import Effect, ForStore
from jobmanager.core.life.operation import OperationKind, OperationStatus
from jobmanager.core.life.records import (
    HistoryEntry,
    Savepoint,
    StoredAttempt,
    StoredJob,
    StoredOperation,
)

Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Life:
    """Everything that the decisions about a job depend on.

    `attempts`, `operations`, `savepoints` and `checkpoints` hold what is under way, and what an
    event refers to. They may also hold some that have ended: no rule depends on that.
    """

    job: StoredJob
    attempts: Mapping[AttemptNumber, StoredAttempt]
    """At least the newest attempt."""
    has_live_runner: bool = False
    """Whether a runner was launched for the newest attempt and is not known to have exited."""
    operations: Mapping[OperationId, StoredOperation] = field(default_factory=dict)
    savepoints: Mapping[SavepointId, Savepoint] = field(default_factory=dict)
    """Savepoints of these operations and checkpoints, and a claimed restore point."""
    checkpoints: Mapping[CheckpointNumber, Checkpoint] = field(default_factory=dict)
    restorable: tuple[CheckpointNumber, ...] = ()
    """Completed checkpoints that are not discarded, ascending; no savepoints."""
    pinned: frozenset[CheckpointNumber] = frozenset()
    """Checkpoints of this job that another job was started from and still needs."""
    shares_restore_point: bool = False
    """Whether another job still needs the restore point that this job has claimed."""

    @property
    def attempt(self) -> StoredAttempt:
        """The newest attempt."""
        return self.attempts[self.job.job.attempt]

    @property
    def operation(self) -> StoredOperation | None:
        """The operation under way that stops or changes the job. There is at most one."""
        for one in self.operations.values():
            if one.operation.kind is not OperationKind.SAVEPOINT and is_under_way(one):
                return one
        return None

    @property
    def checkpoints_under_way(self) -> list[Checkpoint]:
        """The checkpoints under way, the newest first."""
        found = [c for c in self.checkpoints.values() if c.status is CheckpointStatus.IN_PROGRESS]
        return sorted(found, key=lambda one: -one.number)


@dataclass(frozen=True, slots=True)
class Announcement:
    """A live event for present listeners. It is not stored."""

    kind: str
    facts: Mapping[str, Any]


class Step(NamedTuple):
    life: Life
    effects: tuple[Effect | ForStore, ...] = ()
    """The effects, in the order in which they were decided."""
    history: tuple[HistoryEntry | Announcement, ...] = ()
    outcome: AckOutcome | None = None
    """The outcome of an ack or a decline."""


class Draft:
    __slots__ = ("effects", "history", "life")

    def __init__(self, life: Life) -> None:
        self.life = life
        self.effects: list[Effect | ForStore] = []
        self.history: list[HistoryEntry | Announcement] = []

    def change_job(self, **changes: Any) -> None:
        self.life = replace(self.life, job=replace(self.life.job, **changes))

    def put_attempt(self, attempt: StoredAttempt) -> None:
        attempts = _with(self.life.attempts, attempt.attempt.number, attempt)
        self.life = replace(self.life, attempts=attempts)

    def put_checkpoint(self, checkpoint: Checkpoint) -> None:
        checkpoints = _with(self.life.checkpoints, checkpoint.number, checkpoint)
        self.life = replace(self.life, checkpoints=checkpoints)

    def put_operation(self, operation: StoredOperation) -> None:
        operations = _with(self.life.operations, operation.id, operation)
        self.life = replace(self.life, operations=operations)

    def put_savepoint(self, savepoint: Savepoint) -> None:
        savepoints = _with(self.life.savepoints, savepoint.id, savepoint)
        self.life = replace(self.life, savepoints=savepoints)

    def result(self, outcome: AckOutcome | None = None) -> Step:
        return Step(self.life, tuple(self.effects), tuple(self.history), outcome)


def is_under_way(operation: StoredOperation) -> bool:
    return operation.operation.status is OperationStatus.IN_PROGRESS


def savepoint_of(life: Life, checkpoint: CheckpointNumber) -> Savepoint:
    """Return the savepoint that belongs to a checkpoint of the kind savepoint."""
    return next(
        one
        for one in life.savepoints.values()
        if one.job_id == life.job.id and one.checkpoint == checkpoint
    )


def _with(mapping: Mapping[Key, Value], key: Key, value: Value) -> Mapping[Key, Value]:
    return {**mapping, key: value}
