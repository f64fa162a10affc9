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
    """Of the job, when the event is sent."""


class ProgressEvent(Shape):
    """`progress`: what the runner of a job last said of each region."""

    job: str
    name: str
    state: JobState
    attempt: int
    at: Rfc3339
    regions: list[RegionProgress]


class ProgressLine(Shape):
    """How one job gets on."""

    job: str
    state: JobState
    attempt: int
    at: Rfc3339
    input_rows: int
    output_rows: int
    is_idle: bool
    lag: int | None


class ProgressSummaryEvent(Shape):
    """`progress_summary`: a line for each job that runs."""

    jobs: list[ProgressLine]


class CheckpointEvent(Shape):
    """`checkpoint_triggered` and `checkpoint_ack`: how far a checkpoint is."""

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
    """`region/vertex/number` of the subtasks that are awaited, or that have acked now; absent
    where they are very many."""


EVENT_DATA = (HistoryEvent, ProgressEvent, ProgressSummaryEvent, CheckpointEvent)
