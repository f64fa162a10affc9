"""What a job did over time."""

from datetime import datetime

from jobmanager.api.shapes.shape import Shape


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


class SamplesResponse(Shape):
    since: datetime
    until: datetime
    step_ms: int
    regions: list[SeriesResponse]
