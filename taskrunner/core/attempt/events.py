"""The events of an attempt: from the JobManager, from signals, from Spark's queries, and from its
own threads.

`CheckpointCompleted` and `CheckpointAborted` are the protocol's own messages. Nothing here reads a
clock: a `TimePassed` event gives the time, and precedes the events that happened at that time.
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
    """The time is now `at`, in seconds of a monotonic clock."""

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
    """End after the batch under way, or in the middle of it when `grace` is over."""

    grace: timedelta
    why: str
    keep_for: timedelta | None = None
    """The job is paused: the runner waits this long for the job's next attempt. None: it ends."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """A newer attempt has taken over: stop at once, publish nothing, report nothing."""

    why: str


@dataclass(frozen=True, slots=True)
class Dismissed:
    """The JobManager no longer knows this runner, or has no more work for it."""

    why: str


Order = CancelAsked | Replaced | Dismissed
"""The orders that can end any attempt, whatever job it runs."""

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
    holds_output: bool = False
    """Whether the output of a sink waits for its checkpoint."""


@dataclass(frozen=True, slots=True)
class PreparationFailed:
    failure: FailureReport


@dataclass(frozen=True, slots=True)
class AllQueriesStarted:
    restored: tuple[RestoredRegion, ...] = ()


@dataclass(frozen=True, slots=True)
class StartFailed:
    """A query could not be started. Queries that had already started are stopped."""

    failure: FailureReport


# ── queries ───────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class QueryFinished:
    """A region has processed all input, and its output is complete."""

    region: RegionId


@dataclass(frozen=True, slots=True)
class QueryFailed:
    region: RegionId
    failure: FailureReport


@dataclass(frozen=True, slots=True)
class QueryCannotStop:
    """A region cannot stop after its batch, as requested: it can only be stopped at once."""

    region: RegionId


@dataclass(frozen=True, slots=True)
class QueryEnded:
    """A region has stopped after its batch, as requested: it is at a boundary."""

    region: RegionId


@dataclass(frozen=True, slots=True)
class RegionsDrained:
    """All regions are at a boundary and have emitted every open window."""


@dataclass(frozen=True, slots=True)
class RegionsStopped:
    """No query of the job runs any more."""


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
    """Whether the query ran just before the log was read. If not, a batch that is not committed
    never will be."""
    is_finished: bool = False
    """Whether the query had read all input just before the log was read, and has ended. Spark may
    have planned another batch, which has no rows and is not committed."""
    has_new_batch: bool = False
    """Whether a batch was committed in this attempt, or the region is idle. Only looked at where a
    barrier awaits that."""

    def has_reached(self, begun: int | None) -> bool:
        """Whether the query is at the end of this batch, or of a later batch."""
        if self.is_finished or begun is None:
            return True
        return self.committed is not None and self.committed >= begun


@dataclass(frozen=True, slots=True)
class BatchesSeen:
    """The answer to `WatchBatches`: sent at once, and again after every change."""

    checkpoint: int
    regions: Mapping[RegionId, BatchesOfRegion]


@dataclass(frozen=True, slots=True)
class SnapshotTaken:
    """The snapshot is durable, and so is its manifest."""

    acks: BarrierAcks
    """The acks for the JobManager: one for each subtask."""


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
    """No answer arrived in time, or it was a refusal. The JobManager may still have the acks."""

    checkpoint: int
    why: str


@dataclass(frozen=True, slots=True)
class DeclineAnswered:
    """A decline has been answered, or its delivery was given up."""

    checkpoint: int
    is_superseded: bool = False


@dataclass(frozen=True, slots=True)
class OutputShown:
    """The output held for this checkpoint is visible."""

    checkpoint: int


@dataclass(frozen=True, slots=True)
class OutputNotShown:
    """Publishing the held output failed; part of it may be visible. A later checkpoint, or the next
    attempt, publishes the rest.
    """

    checkpoint: int
    why: str


@dataclass(frozen=True, slots=True)
class AllOutputShown:
    """The job has finished, and all its output is visible."""


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
