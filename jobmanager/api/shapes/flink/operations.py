"""Flink's answers about asynchronous operations: the trigger's, and those about its progress."""

from typing import Literal

from pydantic import Field

from jobmanager.api.shapes.flink.flink_shape import FlinkShape, HyphenatedShape


class RequestAccepted(HyphenatedShape):
    request_id: str
    """The id of the operation."""


class Nothing(FlinkShape):
    """An empty object."""


class QueueStatus(FlinkShape):
    id: Literal["IN_PROGRESS", "COMPLETED"]


class FailureCause(HyphenatedShape):
    class_name: str = Field(alias="class")
    stack_trace: str | None


class TriggerResult(HyphenatedShape):
    location: str = ""
    """Where the savepoint is; absent: the operation failed, or makes none."""
    failure_cause: FailureCause | None = None
    """Absent: the operation did not fail."""


class TriggerStatus(FlinkShape):
    status: QueueStatus
    operation: TriggerResult | None
    """Null: the operation is under way."""
