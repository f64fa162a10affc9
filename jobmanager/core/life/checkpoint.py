"""Checkpoint lifecycle.

    IN_PROGRESS ──every awaited subtask acked──────────▶ COMPLETED
         └───────declined, expired, attempt ended──────▶ ABORTED

The awaited subtasks are a set, stored before the barrier is sent: a repeated ack changes nothing,
and an ack of a subtask that was not awaited does not count. No clock and no I/O here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, assert_never

from jobmanager.core.ids import AttemptNumber, CheckpointNumber, SubtaskRef
from jobmanager.core.life.effects import (
    AnnounceCompletion,
    DiscardCheckpoint,
    Effect,
    SendBarrier,
    StopAttempt,
    WithdrawBarrier,
)
from jobmanager.core.plan.job_plan import SnapshotKind


class CheckpointStatus(StrEnum):
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    ABORTED = "aborted"


class CheckpointKind(StrEnum):
    PERIODIC = "periodic"
    REQUESTED = "requested"
    SAVEPOINT = "savepoint"


class AbortReason(StrEnum):
    DECLINED_NOT_RUNNING = "declined_not_running"
    DECLINED_NO_BOUNDARY = "declined_no_boundary_in_time"
    DECLINED_STORAGE = "declined_storage"
    DECLINED_SUPERSEDED = "declined_superseded"
    DECLINED_INTERNAL = "declined_internal"
    EXPIRED = "expired"
    ATTEMPT_ENDED = "attempt_ended"

    @property
    def is_news_of_attempt(self) -> bool:
        """Whether the attempt's end is the cause: the attempt then reports its own reason."""
        return self in (
            AbortReason.DECLINED_NOT_RUNNING,
            AbortReason.DECLINED_SUPERSEDED,
            AbortReason.ATTEMPT_ENDED,
        )


class AckOutcome(StrEnum):
    """The outcome of an ack. Late, repeated and fenced acks are results, not errors."""

    RECORDED = "recorded"
    COMPLETED = "completed"
    ALREADY_RECORDED = "already_recorded"
    TOO_LATE = "too_late"
    SUPERSEDED = "superseded"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What one subtask wrote for one barrier."""

    kind: SnapshotKind
    pointer: str | None = None
    version: int | None = None
    bytes: int = 0
    key_groups: tuple[int, ...] = ()
    offsets: Any = None
    watermark: datetime | None = None


@dataclass(frozen=True, slots=True)
class BarrierTimes:
    """How long a runner took to answer a barrier, by its own clock."""

    waited_ms: Mapping[str, int] = field(default_factory=dict)
    """By region, from the barrier to the end of the batch that was under way. A region that is
    missing was not measured.
    """
    snapshot_ms: int | None = None
    """From the last of these ends until the manifest was durable. None: not measured."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What a checkpoint wrote: its manifest names every file."""

    manifest: str
    batches: Mapping[str, int | None]
    """By region, the batch whose commit was the barrier; None: no batch was committed."""
    bytes: int
    new_bytes: int
    times: BarrierTimes = field(default_factory=BarrierTimes)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    number: CheckpointNumber
    attempt: AttemptNumber
    kind: CheckpointKind
    triggered_at: datetime
    expires_at: datetime
    awaiting: Mapping[SubtaskRef, SnapshotKind]
    snapshots: Mapping[SubtaskRef, Snapshot] = field(default_factory=dict)
    stored: Stored | None = None
    """Where the checkpoint's files are; known from the first ack on."""
    status: CheckpointStatus = CheckpointStatus.IN_PROGRESS
    ended_at: datetime | None = None
    aborted_because: AbortReason | None = None
    detail: str | None = None

    @property
    def is_savepoint(self) -> bool:
        """Whether this is a savepoint: retention never deletes it and recovery does not use it."""
        return self.kind is CheckpointKind.SAVEPOINT


@dataclass(frozen=True, slots=True)
class SavepointOrder:
    """What a savepoint requires of the runner, in addition to a barrier."""

    id: str
    directory: str
    stops: bool = False
    drains: bool = False
    keeps_runner: bool = False


@dataclass(frozen=True, slots=True)
class BarrierAcked:
    at: datetime
    attempt: AttemptNumber
    snapshots: Mapping[SubtaskRef, Snapshot]
    stored: Stored
    has_new_batches: bool = False
    """Whether each region has committed a batch in this attempt, or has found no input."""


@dataclass(frozen=True, slots=True)
class BarrierDeclined:
    at: datetime
    attempt: AttemptNumber
    reason: AbortReason
    detail: str


@dataclass(frozen=True, slots=True)
class CheckpointExpired:
    at: datetime


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    at: datetime
    attempt: AttemptNumber
    detail: str


CheckpointEvent = BarrierAcked | BarrierDeclined | CheckpointExpired | AttemptEnded


class CheckpointTransition(NamedTuple):
    checkpoint: Checkpoint
    outcome: AckOutcome | None = None
    effects: tuple[Effect, ...] = ()


def trigger(
    number: CheckpointNumber,
    attempt: AttemptNumber,
    kind: CheckpointKind,
    awaited: Mapping[SubtaskRef, SnapshotKind],
    at: datetime,
    expires_at: datetime,
    order: SavepointOrder | None = None,
    *,
    awaits_new_batch: bool = False,
) -> CheckpointTransition:
    checkpoint = Checkpoint(number, attempt, kind, at, expires_at, dict(awaited))
    effect: Effect
    if order is None:
        effect = SendBarrier(attempt, number, expires_at, awaits_new_batch=awaits_new_batch)
    elif order.stops:
        effect = StopAttempt(
            attempt,
            number,
            expires_at,
            order.id,
            order.directory,
            order.drains,
            order.keeps_runner,
        )
    else:
        effect = SendBarrier(attempt, number, expires_at, order.id, order.directory)
    return CheckpointTransition(checkpoint, None, (effect,))


def transition(checkpoint: Checkpoint, event: CheckpointEvent) -> CheckpointTransition:
    match event:
        case BarrierAcked():
            return _ack(checkpoint, event)
        case BarrierDeclined() if event.attempt != checkpoint.attempt:
            return CheckpointTransition(checkpoint, AckOutcome.SUPERSEDED)
        case BarrierDeclined():
            return _abort(checkpoint, event.reason, event.detail, event.at)
        case CheckpointExpired() if event.at >= checkpoint.expires_at:
            late = ", ".join(f"{s.vertex}/{s.subtask}" for s in sorted(checkpoint.awaiting))
            return _abort(checkpoint, AbortReason.EXPIRED, f"no ack from {late} in time", event.at)
        case CheckpointExpired():
            return CheckpointTransition(checkpoint)
        case AttemptEnded() if event.attempt == checkpoint.attempt:
            return _abort(checkpoint, AbortReason.ATTEMPT_ENDED, event.detail, event.at)
        case AttemptEnded():
            return CheckpointTransition(checkpoint)
        case _:
            assert_never(event)


def _ack(checkpoint: Checkpoint, event: BarrierAcked) -> CheckpointTransition:
    if event.attempt != checkpoint.attempt:
        return CheckpointTransition(checkpoint, AckOutcome.SUPERSEDED)
    news = {s: v for s, v in event.snapshots.items() if s in checkpoint.awaiting}
    if not news and all(subtask in checkpoint.snapshots for subtask in event.snapshots):
        return CheckpointTransition(checkpoint, AckOutcome.ALREADY_RECORDED)
    if checkpoint.status is CheckpointStatus.ABORTED:
        return CheckpointTransition(checkpoint, AckOutcome.TOO_LATE, _leftovers(checkpoint))
    if checkpoint.status is CheckpointStatus.COMPLETED:
        return CheckpointTransition(checkpoint, AckOutcome.TOO_LATE)
    acked = replace(
        checkpoint,
        awaiting={s: kind for s, kind in checkpoint.awaiting.items() if s not in news},
        snapshots={**checkpoint.snapshots, **news},
        stored=event.stored,
    )
    if acked.awaiting:
        return CheckpointTransition(acked, AckOutcome.RECORDED)
    completed = replace(acked, status=CheckpointStatus.COMPLETED, ended_at=event.at)
    announce = AnnounceCompletion(checkpoint.attempt, checkpoint.number)
    return CheckpointTransition(completed, AckOutcome.COMPLETED, (announce,))


def _abort(
    checkpoint: Checkpoint, reason: AbortReason, detail: str, at: datetime
) -> CheckpointTransition:
    if checkpoint.status is not CheckpointStatus.IN_PROGRESS:
        return CheckpointTransition(checkpoint, AckOutcome.TOO_LATE)
    aborted = replace(
        checkpoint,
        status=CheckpointStatus.ABORTED,
        ended_at=at,
        aborted_because=reason,
        detail=detail,
    )
    withdraw = WithdrawBarrier(checkpoint.attempt, checkpoint.number, detail)
    return CheckpointTransition(aborted, AckOutcome.RECORDED, (withdraw, *_leftovers(checkpoint)))


def _leftovers(checkpoint: Checkpoint) -> tuple[Effect, ...]:
    """Discard what an aborted checkpoint wrote. A savepoint's directory is the user's."""
    return () if checkpoint.is_savepoint else (DiscardCheckpoint(checkpoint.number),)
