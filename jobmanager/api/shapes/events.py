"""The data of server-sent events: what each line `data:` of the streams holds."""

from pydantic import ConfigDict, Field

from jobmanager.api.shapes.jobs import HistoryItem
from jobmanager.api.shapes.shape import Rfc3339, Shape
from jobmanager.api.shapes.status import JobState
from jobmanager.core.life.checkpoint import CheckpointKind, CheckpointStatus
from jobmanager.core.progress import RegionProgress


class HistoryEvent(HistoryItem):
    """An entry of the history; the event's type is its `kind`, the event's id its `id`."""

    job: str
    name: str
    """Of the job."""
    state: JobState
    """The job's state when the event is sent."""


class ProgressEvent(Shape):
    """`progress`: what the job's runner last reported about each region."""

    job: str
    name: str
    state: JobState
    attempt: int
    at: Rfc3339
    regions: list[RegionProgress]


class ProgressLine(Shape):
    """The progress of one job."""

    job: str
    state: JobState
    attempt: int
    at: Rfc3339
    input_rows: int
    output_rows: int
    is_idle: bool
    lag: int | None


class ProgressSummaryEvent(Shape):
    """`progress_summary`: a line for each running job."""

    jobs: list[ProgressLine]


class CheckpointEvent(Shape):
    """`checkpoint_triggered` and `checkpoint_ack`: the progress of a checkpoint."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=False)

    job: str
    at: Rfc3339
    name: str
    attempt: int
    checkpoint: int
    checkpoint_kind: CheckpointKind
    status: CheckpointStatus
    acked: int
    awaited: int
    subtasks: list[str] = Field(default_factory=list)
    """`region/vertex/number` of the subtasks that are awaited, or that have just acked; absent
    where there are very many.
    """


EVENT_DATA = (HistoryEvent, ProgressEvent, ProgressSummaryEvent, CheckpointEvent)
