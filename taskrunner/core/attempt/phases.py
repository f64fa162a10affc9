"""The state of an attempt: its phase, and the answers to barriers."""

from dataclasses import dataclass, field
from enum import StrEnum

from jobmanager.core.ids import RegionId, VertexId
from jobmanager.protocol.messages import EndingReport, Stop
from taskrunner.core.attempt.barrier_answers import BarrierAnswers
from taskrunner.core.fence_time import FenceTime


@dataclass(frozen=True, slots=True)
class Preparing:
    """Regions are restored and compiled."""


@dataclass(frozen=True, slots=True)
class Starting:
    """Queries are started."""


@dataclass(frozen=True, slots=True)
class Running:
    """Queries run."""


class StopStep(StrEnum):
    SNAPSHOT_UNDER_WAY = "snapshot_under_way"
    """The snapshot of an earlier barrier may finish: a drain would destroy the state it needs. The
    queries have not been asked to end yet."""
    LAST_BATCH = "last_batch"
    """Every query is in its last batch, or has ended after it."""
    DRAINING = "draining"
    """Every query has ended once; open windows are emitted."""
    CLOSING = "closing"
    """Every query is at its last boundary, and is closed."""
    CLOSED = "closed"
    """The acks of an earlier barrier are sent first."""


@dataclass(frozen=True, slots=True)
class Stopping:
    """The queries are brought to a boundary, so that the savepoint can be taken."""

    step: StopStep = StopStep.SNAPSHOT_UNDER_WAY
    ended: frozenset[RegionId] = frozenset()


@dataclass(frozen=True, slots=True)
class Saving:
    """The savepoint of a stop is taken and acked, and its completion is awaited."""

    stop: Stop
    deadline: float
    """By when the savepoint has to be confirmed."""


@dataclass(frozen=True, slots=True)
class Cancelling:
    """Every query is in its last batch, which is interrupted when the grace period is over."""

    deadline: float
    ended: frozenset[RegionId] = frozenset()
    cut: frozenset[RegionId] = frozenset()
    """Regions that cannot end after a batch, or have failed."""
    keeps_runner: bool = False
    """The job is paused: its next attempt will run in this process."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The outcome is decided. It is reported when no query runs and the last answers are sent."""

    report: EndingReport
    keeps_runner: bool = False
    shows_output: bool = False
    """The job has finished, and its held output is being published."""


@dataclass(frozen=True, slots=True)
class Ended:
    report: EndingReport | None
    """None: the attempt was replaced or dismissed, and reported nothing."""


Phase = Preparing | Starting | Running | Stopping | Saving | Cancelling | Ending | Ended


@dataclass(frozen=True, slots=True)
class PendingStop:
    stop: Stop
    deadline: float


@dataclass(frozen=True, slots=True)
class AttemptState:
    phase: Phase = field(default_factory=Preparing)
    now: float = 0.0
    """The time of the last `TimePassed`."""
    regions: tuple[RegionId, ...] = ()
    has_boundaries: bool = True
    """False: a batch job, which can neither be snapshotted nor stopped with a savepoint."""
    has_queries: bool = False
    """Whether a query of the job may be running."""
    finished: frozenset[RegionId] = frozenset()
    stop: PendingStop | None = None
    """The requested stop, until it is declined or its snapshot is taken: kept until the queries
    run, under way in STOPPING."""
    answers: BarrierAnswers = field(default_factory=BarrierAnswers)
    fence: FenceTime = field(default_factory=lambda: FenceTime(0.0))
    unfenced: tuple[VertexId, ...] = ()
    """Sinks that a replaced attempt could still write to: because of them the fence time counts."""
    holds_output: bool = False
    """Whether the output of a sink waits for its checkpoint: then the job finishes with a final
    checkpoint."""
    final_after: int | None = None
    """When all input was read, the newest checkpoint whose snapshot had been begun: every later
    checkpoint covers all output. None: not all input was read yet."""

    @property
    def is_complete(self) -> bool:
        """Whether the job may finish: no output waits for a checkpoint any more."""
        if not self.holds_output:
            return True
        return self.final_after is not None and self.answers.completed > self.final_after

    @property
    def may_trespass(self) -> bool:
        """Whether something runs that could write beside the attempt that takes its place."""
        return self.has_queries and bool(self.unfenced)
