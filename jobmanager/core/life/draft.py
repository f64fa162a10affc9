"""The composed life of a job as a value, and the draft of it while an event is applied.

A draft is made by `life.step`, changed by the rules of one event, and given up: nobody outside
of the step ever sees it, so the step is a pure function.
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
    """Everything that decides what becomes of a job.

    `attempts`, `operations`, `savepoints` and `checkpoints` hold what is under way, and
    whatever else a message speaks of. What has ended may be there: no rule minds it.
    """

    job: StoredJob
    attempts: Mapping[AttemptNumber, StoredAttempt]
    """The newest attempt, at least."""
    has_live_runner: bool = False
    """A runner was launched for the newest attempt, and is not known to be gone."""
    operations: Mapping[OperationId, StoredOperation] = field(default_factory=dict)
    savepoints: Mapping[SavepointId, Savepoint] = field(default_factory=dict)
    """Of these operations and checkpoints; and the claimed savepoint that the job started from."""
    checkpoints: Mapping[CheckpointNumber, Checkpoint] = field(default_factory=dict)
    restorable: tuple[CheckpointNumber, ...] = ()
    """Completed checkpoints that are not discarded, ascending; no savepoints."""
    pinned: frozenset[CheckpointNumber] = frozenset()
    """Checkpoints of this job that another job starts from, and has nothing of its own yet."""
    shares_restore_point: bool = False
    """Another job still needs what this job has claimed."""

    @property
    def attempt(self) -> StoredAttempt:
        """The newest."""
        return self.attempts[self.job.job.attempt]

    @property
    def operation(self) -> StoredOperation | None:
        """The operation under way that stops or changes the job. There is one at most."""
        for one in self.operations.values():
            if one.operation.kind is not OperationKind.SAVEPOINT and is_under_way(one):
                return one
        return None

    @property
    def checkpoints_under_way(self) -> list[Checkpoint]:
        """The newest first."""
        found = [c for c in self.checkpoints.values() if c.status is CheckpointStatus.IN_PROGRESS]
        return sorted(found, key=lambda one: -one.number)


@dataclass(frozen=True, slots=True)
class Announcement:
    """For those who watch just now. It is kept nowhere."""

    kind: str
    facts: Mapping[str, Any]


class Step(NamedTuple):
    life: Life
    effects: tuple[Effect | ForStore, ...] = ()
    """In the order in which they were decided."""
    history: tuple[HistoryEntry | Announcement, ...] = ()
    outcome: AckOutcome | None = None
    """Of an ack or a decline."""


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
    """The savepoint that a checkpoint of kind savepoint is."""
    return next(
        one
        for one in life.savepoints.values()
        if one.job_id == life.job.id and one.checkpoint == checkpoint
    )


def _with(mapping: Mapping[Key, Value], key: Key, value: Value) -> Mapping[Key, Value]:
    return {**mapping, key: value}
