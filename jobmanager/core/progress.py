"""What a runner reports of its regions: the same types on the wire, in the database, and on the
page of a job.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from jobmanager.core.durations import milliseconds


@dataclass(frozen=True, slots=True)
class AccumulatorValue:
    merge: Literal["sum", "lowest", "highest"]
    value: int | float


@dataclass(frozen=True, slots=True)
class LoopProgress:
    """How far a loop inside of a batch job is."""

    vertex: str
    iteration: int
    """Rounds done."""
    max_iterations: int
    rows: int
    """That the last round gave or, where a loop only touches what changed, that it left to do."""
    duration_ms: int
    """Of the last round."""
    is_converged: bool
    is_running: bool = True


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """What Spark says of one source of a region, in its last report."""

    vertex: str
    input_rows_per_second: float = 0.0
    processed_rows_per_second: float = 0.0
    backlog_rows: int | None = None
    """Rows that are there and not read; None: the source does not say."""


@dataclass(frozen=True, slots=True)
class OperatorProgress:
    """What Spark says of one stateful operator of a region, in its last report."""

    vertex: str
    operator: str
    """Spark's name for what it does."""
    updated_rows: int = 0
    """In the last batch."""
    dropped_rows: int = 0
    """In the last batch: they came later than the watermark allows."""
    state_rows: int = 0
    """0 where Spark does not count them."""
    state_bytes: int = 0
    """Of memory."""
    commit_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionProgress:
    """How far a region is, and what it has done since its attempt began."""

    region: str
    batch: int | None
    """The last committed batch."""
    batches: int = 0
    """Committed by this attempt."""
    is_active: bool
    is_idle: bool = False
    """It has looked for input since its last batch, and found none."""
    input_rows: int = 0
    """Read by this attempt so far."""
    output_rows: int = 0
    """Given to the sink by this attempt so far."""
    input_rows_per_second: float = 0.0
    processed_rows_per_second: float = 0.0
    batch_duration_ms: int = 0
    watermark: datetime | None = None
    state_rows: int = 0
    state_bytes: int = 0
    offsets: dict[str, Any] = field(default_factory=dict)
    """Source vertex to Spark's offset of it."""
    progressed_at: datetime | None = None
    """When the last batch was committed."""
    input_waiting: bool | None = None
    """Whether there is input that no committed batch has; None: unknown."""
    batch_started_at: datetime | None = None
    """When the batch under way began; None: there is none."""
    unmoved_ms: int | None = None
    """How long nothing was committed though there was something to do. 0: it moves, or it is
    idle. A duration, so that clocks that differ do not matter."""
    median_batch_ms: int = 0
    """Of the last batches with input."""
    accumulators: dict[str, dict[str, AccumulatorValue]] = field(default_factory=dict)
    """Vertex to name to what users' code added up in committed batches, of all attempts."""
    activity: str | None = None
    """What Spark says it is doing."""
    loops: list[LoopProgress] = field(default_factory=list)
    """Of a batch job."""
    busy_ms: int = 0
    """Spent on batches by this attempt so far."""
    measured_batches: int = 0
    """How many batches `phases_ms` is about."""
    phases_ms: dict[str, int] = field(default_factory=dict)
    """What these batches spent their time on, by Spark's names: `addBatch`, `walCommit` …"""
    sources: list[SourceProgress] = field(default_factory=list)
    operators: list[OperatorProgress] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RestoredRegion:
    """Where a region's new attempt started from, and why there."""

    region: str
    origin: Literal["scratch", "attempt", "checkpoint", "savepoint"]
    batch: int | None
    source: int | None
    """Number of the attempt or checkpoint."""
    why: str


def lag_ms(progress: RegionProgress) -> int | None:
    """Milliseconds between a region's watermark and its last batch; None: unknown."""
    if progress.watermark is None or progress.progressed_at is None:
        return None
    return milliseconds(progress.progressed_at - progress.watermark)


def largest_lag_ms(regions: Iterable[RegionProgress]) -> int | None:
    """The lag of the region that is furthest behind; None: unknown."""
    lags = [lag for one in regions if (lag := lag_ms(one)) is not None]
    return max(lags) if lags else None
