"""Checkpoints as Flink shows them: counts, statistics, the latest, the history."""

from typing import Literal

from pydantic import Field

from jobmanager.api.shapes.flink.flink_shape import FlinkShape
from jobmanager.core.progress import RestoredRegion


class CheckpointCounts(FlinkShape):
    restored: int
    total: int
    in_progress: int
    completed: int
    failed: int


class FigureStatistics(FlinkShape):
    min: int
    max: int
    avg: int
    p50: int | float | Literal["NaN"]
    p90: int | float | Literal["NaN"]
    p95: int | float | Literal["NaN"]
    p99: int | float | Literal["NaN"]
    p999: int | float | Literal["NaN"]


class CheckpointsSummary(FlinkShape):
    checkpointed_size: FigureStatistics
    state_size: FigureStatistics
    end_to_end_duration: FigureStatistics
    alignment_buffered: FigureStatistics
    processed_data: FigureStatistics
    persisted_data: FigureStatistics


class TaskCheckpoint(FlinkShape):
    id: int
    status: Literal["IN_PROGRESS", "COMPLETED", "FAILED"]
    latest_ack_timestamp: int
    """-1: nothing was acked yet."""
    end_to_end_duration: int
    alignment_buffered: int
    processed_data: int
    persisted_data: int
    checkpointed_size: int
    """What the checkpoint added to the job's pool of files."""
    state_size: int
    """All of the checkpoint."""
    num_subtasks: int
    num_acknowledged_subtasks: int


class CheckpointDurations(FlinkShape):
    """-1: unknown. Spark commits a batch at once."""

    sync: int
    async_: int = Field(alias="async")


class CheckpointAlignment(FlinkShape):
    """Always 0: a barrier is the end of a batch, and nothing waits in between."""

    buffered: int
    processed: int
    persisted: int
    duration: int


class SubtaskCheckpoint(FlinkShape):
    """What comes after `status` is absent while the ack is awaited."""

    class_name: Literal["completed", "pending"] = Field(alias="className")
    index: int
    status: str
    ack_timestamp: int = -1
    end_to_end_duration: int = -1
    checkpointed_size: int = 0
    state_size: int = 0
    checkpoint: CheckpointDurations | None = None
    alignment: CheckpointAlignment | None = None
    start_delay: int = -1
    unaligned_checkpoint: bool = False
    aborted: bool = False


class DurationStatistics(FlinkShape):
    sync: FigureStatistics
    async_: FigureStatistics = Field(alias="async")


class AlignmentStatistics(FlinkShape):
    buffered: FigureStatistics
    processed: FigureStatistics
    persisted: FigureStatistics
    duration: FigureStatistics


class SubtasksSummary(FlinkShape):
    checkpointed_size: FigureStatistics
    state_size: FigureStatistics
    end_to_end_duration: FigureStatistics
    checkpoint_duration: DurationStatistics
    alignment: AlignmentStatistics
    start_delay: FigureStatistics


class TaskCheckpointDetails(TaskCheckpoint):
    summary: SubtasksSummary
    subtasks: list[SubtaskCheckpoint]


class CheckpointLine(FlinkShape):
    class_name: str = Field(alias="className")
    id: int
    status: Literal["IN_PROGRESS", "COMPLETED", "FAILED"]
    is_savepoint: bool
    savepoint_format: str | None = Field(alias="savepointFormat")
    trigger_timestamp: int
    latest_ack_timestamp: int
    """-1: nothing was acked yet."""
    end_to_end_duration: int
    alignment_buffered: int
    processed_data: int
    persisted_data: int
    checkpointed_size: int
    """What the checkpoint added to the job's pool of files."""
    state_size: int
    """All of the checkpoint."""
    num_subtasks: int
    num_acknowledged_subtasks: int
    checkpoint_type: str
    tasks: dict[str, TaskCheckpoint]
    """By task; empty in lists."""
    external_path: str = ""
    """Where the checkpoint is; absent: it is not complete."""
    discarded: bool = False
    """Absent: the checkpoint is not complete."""
    failure_timestamp: int = 0
    """Absent: the checkpoint has not failed."""
    failure_message: str = ""
    """Absent: the checkpoint has not failed."""


class RestoredCheckpoint(FlinkShape):
    id: int
    restore_timestamp: int
    is_savepoint: bool
    external_path: str
    headgate_origins: list[RestoredRegion] = Field(alias="headgate-origins")


class LatestCheckpoints(FlinkShape):
    completed: CheckpointLine | None
    savepoint: CheckpointLine | None
    failed: CheckpointLine | None
    restored: RestoredCheckpoint | None


class CheckpointsStatistics(FlinkShape):
    counts: CheckpointCounts
    summary: CheckpointsSummary
    latest: LatestCheckpoints
    history: list[CheckpointLine]


class Externalization(FlinkShape):
    enabled: bool
    delete_on_cancellation: bool


class CheckpointsConfig(FlinkShape):
    mode: str
    interval: int
    timeout: int
    min_pause: int
    max_concurrent: int
    externalization: Externalization
    state_backend: str
    checkpoint_storage: str
    unaligned_checkpoints: bool
    tolerable_failed_checkpoints: int
    aligned_checkpoint_timeout: int
    checkpoints_after_tasks_finish: bool
    state_changelog_enabled: bool
    changelog_periodic_materialization_interval: int
    changelog_storage: str
