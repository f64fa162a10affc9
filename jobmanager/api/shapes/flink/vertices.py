"""A task of a job, and its subtasks, as Flink shows them."""

from typing import Literal

from pydantic import Field

from jobmanager.api.shapes.flink.flink_shape import FlinkShape, HyphenatedShape
from jobmanager.api.shapes.flink.jobs import Accumulator, TaskMetrics


class SubtaskAttempt(HyphenatedShape):
    subtask: int
    status: str
    attempt: int
    """The number of the job's attempt, less 1: Flink counts from 0."""
    endpoint: str
    """The runner's host and process id."""
    began: int = Field(alias="start-time")
    end_time: int
    """-1: the attempt has not ended."""
    duration: int
    metrics: TaskMetrics
    taskmanager_id: str
    """The runner; empty: none was launched yet."""
    status_duration: dict[str, int]
    start_time: int = Field(alias="start_time")
    """The same as `start-time`."""


Percentiles = dict[str, int]


class AggregatedSubtasks(HyphenatedShape):
    metrics: dict[str, Percentiles]
    status_duration: dict[str, Percentiles]


class TaskDetails(HyphenatedShape):
    id: str
    name: str
    parallelism: int
    max_parallelism: int = Field(alias="maxParallelism")
    now: int
    subtasks: list[SubtaskAttempt]
    aggregated: AggregatedSubtasks


class SubtaskTimes(FlinkShape):
    subtask: int
    endpoint: str
    duration: int
    timestamps: dict[str, int]
    """When the subtask came into each state; 0: it was not in that state."""


class TaskTimes(FlinkShape):
    id: str
    name: str
    now: int
    subtasks: list[SubtaskTimes]


class TaskOnRunner(HyphenatedShape):
    endpoint: str
    status: str
    start_time: int
    end_time: int
    duration: int
    metrics: TaskMetrics
    status_counts: dict[str, int]
    taskmanager_id: str
    aggregated: AggregatedSubtasks


class TaskRunners(HyphenatedShape):
    id: str
    name: str
    now: int
    taskmanagers: list[TaskOnRunner]


class SubtaskBackPressure(FlinkShape):
    subtask: int
    backpressure_level: Literal["ok", "low", "high"] = Field(alias="backpressureLevel")
    ratio: float
    idle_ratio: float = Field(alias="idleRatio")
    busy_ratio: float = Field(alias="busyRatio")
    backpressure_level_again: str = Field(alias="backpressure-level")
    """The same as `backpressureLevel`."""


class TaskBackPressure(FlinkShape):
    status: Literal["ok", "deprecated"]
    """`deprecated`: nothing was measured, and nothing else is answered."""
    backpressure_level: Literal["ok", "low", "high"] = Field("ok", alias="backpressureLevel")
    end_timestamp: int = Field(0, alias="end-timestamp")
    subtasks: list[SubtaskBackPressure] = Field(default_factory=list)
    backpressure_level_again: str = Field("ok", alias="backpressure-level")
    """The same as `backpressureLevel`."""


class FlameGraph(FlinkShape):
    end_timestamp: int = Field(alias="endTimestamp")
    """-2: the server makes no flame graphs. -3: the task has ended."""
    data: None


class SubtaskAccumulators(HyphenatedShape):
    subtask: int
    attempt: int
    endpoint: str
    user_accumulators: list[Accumulator]


class AllSubtaskAccumulators(HyphenatedShape):
    id: str
    parallelism: int
    subtasks: list[SubtaskAccumulators]


class AttemptAccumulators(HyphenatedShape):
    subtask: int
    attempt: int
    id: str
    user_accumulators: list[Accumulator]
