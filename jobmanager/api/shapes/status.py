"""The status of a job, and a line about each job."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from jobmanager.api.shapes.shape import Shape
from jobmanager.core.graph.job_graph import Mode
from jobmanager.core.life.attempt import AttemptStatus
from jobmanager.core.life.job import Desired, JobStatus
from jobmanager.core.progress import RegionProgress, RestoredRegion

JobState = JobStatus | Literal["stalled", "degraded"]
"""The state shown to users: a job whose runner is alive but makes no progress is stalled or
degraded.
"""


class RunnerResponse(Shape):
    id: str
    host: str
    pid: int | None
    process: UUID
    """The process that serves the runner: the id of the first runner that it served, or of a shared
    process.
    """
    is_shared: bool
    """Whether the process serves runners of other jobs at the same time."""


class LastCheckpoint(Shape):
    number: int
    completed_at: datetime
    duration_ms: int
    bytes: int


class MetaResponse(Shape):
    """What people want to know of a job, from its graph."""

    owner: str | None
    description: str | None
    runbook: str | None
    """A web address."""
    labels: dict[str, str]


class CrashCostResponse(Shape):
    """What a crash would cost now, if the working directory of the attempt were lost, too."""

    rows: int
    """Rows that were read since the last completed checkpoint and would be read again."""
    replay_ms: int
    """How long their batches took."""
    start_ms: int | None
    """How long the present attempt took to start."""
    is_at_least: bool
    """Whether it may be more, because the attempt continued batches of an earlier attempt that no
    checkpoint covers.
    """


class StatusResponse(Shape):
    status: str
    """Flink's word for `state`, because Flink's clients ask for it at this path."""
    desired: Desired
    observed: AttemptStatus
    """What the newest attempt does."""
    state: JobState
    reason: str
    since: datetime
    running_since: datetime | None
    attempt: int
    runner: RunnerResponse | None
    region_states: list[RegionProgress]
    """What the runner last reported about each region."""
    restored: list[RestoredRegion]
    """Where each region of the newest attempt started from, and why there."""
    last_checkpoint: LastCheckpoint | None
    restarts: int
    lag: int | None
    """Milliseconds by which the slowest region's watermark was behind its last batch."""
    meta: MetaResponse
    crash_cost: CrashCostResponse | None
    """Null: the job does not run, or its runner does not report it."""


class Traffic(Shape):
    """Rows of all regions together; the counts are those of the present attempt."""

    input_rows: int
    output_rows: int
    input_rows_per_second: float
    is_idle: bool


class SummaryItem(Shape):
    id: str
    name: str
    mode: Mode
    state: JobState
    reason: str
    since: datetime
    submitted_at: datetime
    ended_at: datetime | None
    running_since: datetime | None
    attempt: int
    restarts: int
    parallelism: int
    failed_checkpoints: int
    """In a row."""
    restored_from: str | None
    traffic: Traffic | None
    """Null until the job's runner has reported progress."""
    lag: int | None
    """Milliseconds, as in the status."""
    last_checkpoint: LastCheckpoint | None
    recent: list[float]
    """Rows read a second, for each ten seconds of the last five minutes."""
    meta: MetaResponse


class SummaryPage(Shape):
    items: list[SummaryItem]
    next: str | None
    counts: dict[str, int]
    """Jobs in each state, of all jobs."""
