"""What an attempt is told: by the JobManager, by a signal, by Spark's queries, by its own threads.

`CheckpointCompleted` and `CheckpointAborted` are the protocol's own messages. Nothing here knows a
clock: `TimePassed` says what time it is, and precedes whatever happened at that time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from jobmanager.core.ids import RegionId, VertexId
from jobmanager.core.life.checkpoint import AckOutcome
from jobmanager.core.progress import RestoredRegion
from jobmanager.protocol.messages import (
    Barrier,
    BarrierAcks,
    CheckpointAborted,
    CheckpointCompleted,
    DeclineReason,
    FailureReport,
    RepartitionedRegion,
    Stop,
)

# ── time ──────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class TimePassed:
    """It is `at`, in seconds of a clock that never goes back."""

    at: float


@dataclass(frozen=True, slots=True)
class HeartbeatAnswered:
    """A JobManager has answered a heartbeat, and knows this attempt."""

    sent_at: float
    """By the clock of `TimePassed`."""


# ── orders: the JobManager, a signal, the fence ───────────────────────────────


@dataclass(frozen=True, slots=True)
class StopAsked:
    """End at a boundary with a savepoint."""

    stop: Stop
    time_left: timedelta
    """Until `stop.expires_at`."""


@dataclass(frozen=True, slots=True)
class CancelAsked:
    """End after the batch under way, or when `grace` is over in the middle of it."""

    grace: timedelta
    why: str


@dataclass(frozen=True, slots=True)
class Replaced:
    """A newer attempt has taken over: stop at once, publish nothing, say nothing."""

    why: str


@dataclass(frozen=True, slots=True)
class Dismissed:
    """The JobManager does not know this runner (any more), or has no more work for it."""

    why: str


Order = CancelAsked | Replaced | Dismissed
"""What can end any attempt, whatever job it runs."""

# ── the start ─────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Prepared:
    """Every region is restored and compiled."""

    regions: tuple[RegionId, ...]
    has_boundaries: bool
    """False: a batch job, which can neither be snapshotted nor stopped with a savepoint."""
    repartitioned: tuple[RepartitionedRegion, ...] = ()
    unfenced: tuple[VertexId, ...] = ()
    """Sinks that a replaced attempt could still write to."""


@dataclass(frozen=True, slots=True)
class PreparationFailed:
    failure: FailureReport


@dataclass(frozen=True, slots=True)
class AllQueriesStarted:
    restored: tuple[RestoredRegion, ...] = ()


@dataclass(frozen=True, slots=True)
class StartFailed:
    """A query could not be started. Those that had been are stopped."""

    failure: FailureReport


# ── queries ───────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class QueryFinished:
    """A region's sources gave everything, and its output is complete."""

    region: RegionId


@dataclass(frozen=True, slots=True)
class QueryFailed:
    region: RegionId
    failure: FailureReport


@dataclass(frozen=True, slots=True)
class QueryCannotStop:
    """A region was asked to stop after its batch, and cannot: it can only be stopped at once."""

    region: RegionId


@dataclass(frozen=True, slots=True)
class QueryEnded:
    """A region was asked to stop after its batch, and has: it is at a boundary."""

    region: RegionId


@dataclass(frozen=True, slots=True)
class RegionsDrained:
    """Every region, all of them at a boundary, has emitted every open window."""


@dataclass(frozen=True, slots=True)
class RegionsStopped:
    """Nothing of the job runs any more."""


# ── checkpoints ───────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class BarrierArrived:
    barrier: Barrier
    time_left: timedelta
    """Until `barrier.expires_at`."""


@dataclass(frozen=True, slots=True)
class BatchesOfRegion:
    """How far a region's query is, by Spark's own log."""

    begun: int | None
    """The last batch that was planned when watching began."""
    committed: int | None
    """The last batch that was committed."""
    is_alive: bool
    """Whether the query ran just before the log was read: a batch that is then neither
    committed nor under way will never be."""


@dataclass(frozen=True, slots=True)
class BatchesSeen:
    """The answer to `WatchBatches`: at once, and again whenever something has changed."""

    checkpoint: int
    regions: Mapping[RegionId, BatchesOfRegion]


@dataclass(frozen=True, slots=True)
class SnapshotTaken:
    """The snapshot is durable, and so is its manifest."""

    acks: BarrierAcks
    """What to tell the JobManager: one ack a subtask."""


@dataclass(frozen=True, slots=True)
class SnapshotFailed:
    """There is no manifest: the snapshot could not be taken, or Spark's log could not be read
    while its batches were watched. Reason `superseded`: a newer attempt has raised the fence.
    """

    checkpoint: int
    reason: DeclineReason
    detail: str


@dataclass(frozen=True, slots=True)
class AcksAnswered:
    checkpoint: int
    outcome: AckOutcome


@dataclass(frozen=True, slots=True)
class AcksNotDelivered:
    """Nobody answered in time, or the answer was a refusal. The JobManager may have them."""

    checkpoint: int
    why: str


@dataclass(frozen=True, slots=True)
class DeclineAnswered:
    """A decline has been answered, or was given up."""

    checkpoint: int
    is_superseded: bool = False


@dataclass(frozen=True, slots=True)
class OutputShown:
    """What was held back for this checkpoint is in sight."""

    checkpoint: int


@dataclass(frozen=True, slots=True)
class OutputNotShown:
    """Some of it may be in sight. A later checkpoint, or the next attempt, shows the rest."""

    checkpoint: int
    why: str


@dataclass(frozen=True, slots=True)
class AllOutputShown:
    """The job has finished, and nothing it wrote is held back any more."""


@dataclass(frozen=True, slots=True)
class AllOutputNotShown:
    failure: FailureReport


Event = (
    TimePassed
    | HeartbeatAnswered
    | StopAsked
    | CancelAsked
    | Replaced
    | Dismissed
    | Prepared
    | PreparationFailed
    | AllQueriesStarted
    | StartFailed
    | QueryFinished
    | QueryFailed
    | QueryCannotStop
    | QueryEnded
    | RegionsDrained
    | RegionsStopped
    | BarrierArrived
    | BatchesSeen
    | SnapshotTaken
    | SnapshotFailed
    | AcksAnswered
    | AcksNotDelivered
    | DeclineAnswered
    | OutputShown
    | OutputNotShown
    | AllOutputShown
    | AllOutputNotShown
    | CheckpointCompleted
    | CheckpointAborted
)
