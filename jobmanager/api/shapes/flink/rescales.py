"""Rescales as Flink 2.3 shows them."""

from typing import Literal

from pydantic import Field, RootModel

from jobmanager.api.shapes.flink.checkpoints import FigureStatistics
from jobmanager.api.shapes.flink.flink_shape import FlinkShape
from jobmanager.api.shapes.flink.task_managers import ResourceProfile


class ParallelismBounds(FlinkShape):
    min_parallelism: int = Field(alias="minParallelism")
    parallelism: int
    max_parallelism: int = Field(alias="maxParallelism")


class RescaledVertex(FlinkShape):
    job_vertex_id: str = Field(alias="jobVertexId")
    job_vertex_name: str = Field(alias="jobVertexName")
    slot_sharing_group_id: str = Field(alias="slotSharingGroupId")
    slot_sharing_group_name: str = Field(alias="slotSharingGroupName")
    required_parallelisms: ParallelismBounds = Field(alias="requiredParallelisms")
    desired_parallelism: int = Field(alias="desiredParallelism")
    sufficient_parallelism: int = Field(alias="sufficientParallelism")
    pre_rescale_parallelism: int = Field(alias="preRescaleParallelism")
    post_rescale_parallelism: int | None = Field(alias="postRescaleParallelism")
    """Null: the rescale is under way."""


class RescaledSlots(FlinkShape):
    slot_sharing_group_id: str = Field(alias="slotSharingGroupId")
    slot_sharing_group_name: str = Field(alias="slotSharingGroupName")
    desired_slots: int = Field(alias="desiredSlots")
    minimal_required_slots: int = Field(alias="minimalRequiredSlots")
    pre_rescale_slots: int = Field(alias="preRescaleSlots")
    post_rescale_slots: int | None = Field(alias="postRescaleSlots")
    request_resource_profile: ResourceProfile = Field(alias="requestResourceProfile")
    acquired_resource_profile: ResourceProfile = Field(alias="acquiredResourceProfile")


class SchedulerState(FlinkShape):
    """A phase of the operation."""

    state: str
    enter: int = Field(alias="enterTimestampInMillis")
    leave: int | None = Field(alias="leaveTimestampInMillis")
    """Null: the phase goes on."""
    duration: int | None = Field(alias="durationInMillis")
    exception: str | None = Field(alias="stringifiedException")


class RescaleDetails(FlinkShape):
    rescale_uuid: str = Field(alias="rescaleUuid")
    """The operation."""
    resource_requirements_uuid: str = Field(alias="resourceRequirementsUuid")
    rescale_attempt_id: int = Field(alias="rescaleAttemptId")
    vertices: dict[str, RescaledVertex]
    slots: dict[str, RescaledSlots]
    scheduler_states: list[SchedulerState] = Field(alias="schedulerStates")
    start: int = Field(alias="startTimestampInMillis")
    end: int | None = Field(alias="endTimestampInMillis")
    terminal_state: Literal["COMPLETED", "FAILED", "IGNORED"] | None = Field(alias="terminalState")
    """Null: the rescale is under way."""
    trigger_cause: Literal["UPDATE_REQUIREMENT"] = Field(alias="triggerCause")
    terminated_reason: Literal["SUCCEEDED", "EXCEPTION_OCCURRED", "JOB_CANCELED"] | None = Field(
        alias="terminatedReason"
    )


class RescaleHistory(RootModel[list[RescaleDetails]]):
    """Rescales, the newest first."""


class RescaleCounts(FlinkShape):
    ignored: int
    in_progress: int = Field(alias="inProgress")
    completed: int
    failed: int


class LatestRescales(FlinkShape):
    completed: RescaleDetails | None
    failed: RescaleDetails | None
    ignored: RescaleDetails | None


class RescalesOverview(FlinkShape):
    rescales_counts: RescaleCounts = Field(alias="rescalesCounts")
    latest: LatestRescales


class RescalesSummary(FlinkShape):
    rescales_counts: RescaleCounts = Field(alias="rescalesCounts")
    all_durations: FigureStatistics = Field(alias="rescalesDurationStatsInMillis")
    completed_durations: FigureStatistics = Field(alias="completedRescalesDurationStatsInMillis")
    ignored_durations: FigureStatistics = Field(alias="ignoredRescalesDurationStatsInMillis")
    failed_durations: FigureStatistics = Field(alias="failedRescalesDurationStatsInMillis")


class RescaleConfig(FlinkShape):
    """What Headgate does not wait for is 0."""

    rescale_history_max: int = Field(alias="rescaleHistoryMax")
    scheduler_execution_mode: None = Field(alias="schedulerExecutionMode")
    submission_wait: int = Field(alias="submissionResourceWaitTimeoutInMillis")
    submission_stabilization: int = Field(alias="submissionResourceStabilizationTimeoutInMillis")
    slot_idle: int = Field(alias="slotIdleTimeoutInMillis")
    cooldown: int = Field(alias="executingCooldownTimeoutInMillis")
    executing_stabilization: int = Field(alias="executingResourceStabilizationTimeoutInMillis")
    longest_delay: int = Field(alias="maximumDelayForTriggeringRescaleInMillis")
    failed_checkpoints: int = Field(alias="rescaleOnFailedCheckpointCount")
