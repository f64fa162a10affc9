"""What a job did over time, and whether it catches up."""

from datetime import datetime

from jobmanager.api.shapes.shape import Shape
from jobmanager.core.lag_trend import Trend


class SeriesResponse(Shape):
    """The series of one region: a list for each figure, with one element for each bin."""

    region: str
    at: list[datetime]
    """The beginning of the bin."""
    input_rows_per_second: list[float]
    output_rows_per_second: list[float]
    batches: list[int]
    batch_ms: list[float | None]
    """Duration of a batch, on average; null: no batch ran."""
    phases_ms: dict[str, list[float | None]]
    """Time that a batch spent in each phase, on average."""
    busy: list[float]
    """Share of the time in which batches ran, 0 to 1."""
    state_rows: list[int]
    state_bytes: list[int]
    lag_ms: list[int | None]
    backlog_rows: list[int | None]
    """Rows that sources had not read; null: no source counts them."""


class SamplesResponse(Shape):
    since: datetime
    until: datetime
    step_ms: int
    regions: list[SeriesResponse]


class LagResponse(Shape):
    """Whether the job catches up with its input, from the samples of the last minutes."""

    lag_ms: int | None
    """How far the slowest region's watermark was behind its last batch."""
    lag_ms_per_second: float | None
    """By how much the lag changes; negative: it shrinks."""
    backlog_rows: int | None
    """Rows that sources had not read; null: no source counts them."""
    backlog_rows_per_second: float | None
    trend: Trend
    caught_up_in_ms: int | None
    """0: the job has caught up; null: it is not known to catch up."""
