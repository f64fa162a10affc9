"""Jobs as Flink shows them."""

from typing import Literal

from pydantic import Field

from jobmanager.api.shapes.flink.flink_shape import FlinkShape, HyphenatedShape
from jobmanager.api.shapes.flink.plans import JobPlan
from jobmanager.api.shapes.status import JobState, MetaResponse


class JobWithStatus(FlinkShape):
    id: str
    status: str


class JobsWithStatus(FlinkShape):
    jobs: list[JobWithStatus]


class JobLine(HyphenatedShape):
    """A line about a job."""

    jid: str
    name: str
    job_type: str = Field(alias="jobType")
    scheduler_type: str = Field(alias="schedulerType")
    start_time: int
    end_time: int
    """-1: the job has not ended."""
    duration: int
    state: str
    last_modification: int
    tasks: dict[str, int]
    """Subtasks in all (`total`), and in each state."""
    pending_operators: int
    headgate_state: JobState
    """As in the native status."""
    headgate_meta: MetaResponse


class JobsOverview(FlinkShape):
    jobs: list[JobLine]


class TaskMetrics(HyphenatedShape):
    """A count that is not complete is unknown."""

    read_bytes: int
    read_bytes_complete: bool
    write_bytes: int
    write_bytes_complete: bool
    read_records: int
    read_records_complete: bool
    write_records: int
    write_records_complete: bool
    accumulated_backpressured_time: int
    """-1: unknown, also of the idle time."""
    accumulated_idle_time: int
    accumulated_busy_time: float | Literal["NaN"]
    """NaN: unknown."""


class JobTask(HyphenatedShape):
    id: str
    slot_sharing_group_id: str = Field(alias="slotSharingGroupId")
    name: str
    max_parallelism: int = Field(alias="maxParallelism")
    parallelism: int
    status: str
    start_time: int
    end_time: int
    duration: int
    tasks: dict[str, int]
    """Subtasks in each state."""
    metrics: TaskMetrics
    headgate_vertices: list[str]


class JobDetails(HyphenatedShape):
    jid: str
    application_id: str
    name: str
    is_stoppable: bool = Field(alias="isStoppable")
    state: str
    job_type: str
    scheduler_type: str = Field(alias="schedulerType")
    start_time: int
    end_time: int
    duration: int
    max_parallelism: int = Field(alias="maxParallelism")
    now: int
    timestamps: dict[str, int]
    vertices: list[JobTask]
    status_counts: dict[str, int]
    plan: JobPlan
    pending_operators: int


class FailedAttempt(FlinkShape):
    """Why an attempt failed."""

    exception_name: str = Field(alias="exceptionName")
    stacktrace: str
    timestamp: int
    failure_labels: dict[str, str] = Field(alias="failureLabels")
    task_name: str | None = Field(alias="taskName")
    """The region that failed; null: the attempt as a whole."""
    endpoint: str | None
    task_manager_id: str | None = Field(alias="taskManagerId")
    concurrent_exceptions: list[str] = Field(alias="concurrentExceptions")
    headgate_message: str = Field(alias="headgate-message")
    headgate_attempt: int = Field(alias="headgate-attempt")


class ExceptionHistory(FlinkShape):
    entries: list[FailedAttempt]
    truncated: bool


class JobExceptions(FlinkShape):
    exception_history: ExceptionHistory = Field(alias="exceptionHistory")


class ExecutionConfig(HyphenatedShape):
    restart_strategy: str
    job_parallelism: int
    object_reuse_mode: bool
    user_config: dict[str, str]
    """Spark settings of the job graph."""


class JobConfig(HyphenatedShape):
    jid: str
    name: str
    execution_config: ExecutionConfig


class Accumulator(FlinkShape):
    name: str
    type: str
    value: str
    vertices: list[str]
    """Whose code counted."""


class JobAccumulators(HyphenatedShape):
    job_accumulators: list[Accumulator]
    user_task_accumulators: list[Accumulator]
    serialized_user_task_accumulators: dict[str, str]


class TaskAccumulators(HyphenatedShape):
    id: str
    user_accumulators: list[Accumulator]
