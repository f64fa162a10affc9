"""What a runner reports about its regions: the same types on the wire, in the database, and on the
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
    """The progress of a loop in a batch job."""

    vertex: str
    iteration: int
    """Rounds done."""
    max_iterations: int
    rows: int
    """Rows that the last round produced or, in a `delta_iterate`, left in the workset."""
    duration_ms: int
    """Of the last round."""
    is_converged: bool
    is_running: bool = True


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """How far a source is behind the end of one partition of its input."""

    partition: str
    """In Kafka the topic and the number of the partition: `bids-0`."""
    position: int
    """The offset of the first record that was not read."""
    end: int
    """The offset after the last record."""
    rows: int
    """Records that were not read."""
    seconds: float | None = None
    """The age of the first record that was not read, by its timestamp, as measured at the last
    checkpoint; 0: all records were read; None: unknown.
    """


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """What Spark last reported about a source of a region."""

    vertex: str
    input_rows_per_second: float = 0.0
    processed_rows_per_second: float = 0.0
    backlog_rows: int | None = None
    """Rows that are available and not read yet; None: the source does not report it."""
    lags: list[PartitionLag] = field(default_factory=list)
    """Of a source that has partitions, such as Kafka."""
    unreadable_rows: int = 0
    """Records that this attempt could not decode."""


@dataclass(frozen=True, slots=True)
class OperatorProgress:
    """What Spark last reported about a stateful operator of a region."""

    vertex: str
    operator: str
    """Spark's name of the operator."""
    updated_rows: int = 0
    """In the last batch."""
    dropped_rows: int = 0
    """Rows dropped in the last batch, because they were later than the watermark allows."""
    state_rows: int = 0
    """0 where Spark does not count them."""
    state_bytes: int = 0
    """Of memory."""
    commit_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtaskProgress:
    """What Spark measured of the tasks of one subtask, since the attempt began; None: Spark does
    not measure it. Rates are those of the last minute.
    """

    vertex: str
    """The first vertex of the task."""
    subtask: int | None
    """None: the task as a whole, because Spark's partitions are not its subtasks: a batch of a
    source has as many partitions as there is input."""
    records_in: int | None = 0
    """Rows read from a source or a shuffle."""
    records_out: int | None = 0
    """Rows written to a shuffle or a sink."""
    bytes_in: int | None = 0
    bytes_out: int | None = 0
    busy_ms: int = 0
    """Run time of the tasks."""
    backpressured_ms: int = 0
    """Time for which all tasks of a batch were done and the sink was not."""
    records_in_per_second: float | None = 0.0
    records_out_per_second: float | None = 0.0
    bytes_in_per_second: float | None = 0.0
    bytes_out_per_second: float | None = 0.0
    busy_ms_per_second: float = 0.0
    backpressured_ms_per_second: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionProgress:
    """The progress of a region, and what it has done since its attempt began."""

    region: str
    batch: int | None
    """The last committed batch."""
    batches: int = 0
    """Batches that this attempt has committed."""
    is_active: bool
    is_idle: bool = False
    """Whether the region has looked for input since its last batch and found none."""
    input_rows: int = 0
    """Rows that this attempt has read so far."""
    output_rows: int = 0
    """Rows that this attempt has given to the sink so far."""
    input_rows_per_second: float = 0.0
    processed_rows_per_second: float = 0.0
    batch_duration_ms: int = 0
    watermark: datetime | None = None
    state_rows: int = 0
    state_bytes: int = 0
    offsets: dict[str, Any] = field(default_factory=dict)
    """Spark's offset of each source vertex."""
    progressed_at: datetime | None = None
    """When the last batch was committed."""
    input_waiting: bool | None = None
    """Whether there is input that is in no committed batch; None: unknown."""
    batch_started_at: datetime | None = None
    """When the current batch began; None: no batch is running."""
    unmoved_ms: int | None = None
    """How long the region had work and committed nothing; 0: it makes progress, or is idle.
    A duration, so that differences between clocks do not matter.
    """
    median_batch_ms: int = 0
    """Durations of the last batches with input."""
    accumulators: dict[str, dict[str, AccumulatorValue]] = field(default_factory=dict)
    """By vertex and name, what users' code added up in committed batches of all attempts."""
    activity: str | None = None
    """What Spark reports that it is doing."""
    loops: list[LoopProgress] = field(default_factory=list)
    """Of a batch job."""
    busy_ms: int = 0
    """Time that this attempt has spent on batches so far."""
    measured_batches: int = 0
    """How many batches `phases_ms` covers."""
    phases_ms: dict[str, int] = field(default_factory=dict)
    """Time that these batches spent in each phase, by Spark's names: `addBatch`, `walCommit` …"""
    uncheckpointed_rows: int | None = None
    """Rows read in batches that no completed checkpoint covers; None: not counted."""
    uncheckpointed_busy_ms: int | None = None
    """Time that these batches took."""
    has_checkpoint_of_attempt: bool = False
    """Whether a checkpoint was completed since this attempt began."""
    sources: list[SourceProgress] = field(default_factory=list)
    operators: list[OperatorProgress] = field(default_factory=list)
    subtasks: list[SubtaskProgress] = field(default_factory=list)
    """Empty: Spark's tasks cannot be told apart by vertex, or were not measured."""


@dataclass(frozen=True, slots=True)
class RestoredRegion:
    """What a region was restored from in a new attempt, and why."""

    region: str
    origin: Literal["scratch", "attempt", "checkpoint", "savepoint"]
    batch: int | None
    source: int | None
    """Number of the attempt or checkpoint."""
    why: str


def lag_ms(progress: RegionProgress) -> int | None:
    """Return the milliseconds between a region's watermark and its last batch; None: unknown."""
    if progress.watermark is None or progress.progressed_at is None:
        return None
    return milliseconds(progress.progressed_at - progress.watermark)


def largest_lag_ms(regions: Iterable[RegionProgress]) -> int | None:
    """Return the lag of the region that is furthest behind; None: unknown."""
    lags = [lag for one in regions if (lag := lag_ms(one)) is not None]
    return max(lags) if lags else None
