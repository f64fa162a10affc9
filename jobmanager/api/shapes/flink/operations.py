"""Flink's answers about asynchronous operations: the trigger's, and those about its progress."""

from typing import Literal

from pydantic import Field, RootModel

from jobmanager.api.shapes.checkpoints import CheckpointResponse
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
    stack_trace: str
    serialized_throwable: str
    """Base64 of a Java object that holds the class name and both texts: what Flink's Java clients
    read.
    """


class TriggerResult(HyphenatedShape):
    location: str = ""
    """Where the savepoint is; absent: the operation failed, or makes none."""
    failure_cause: FailureCause | None = None
    """Absent: the operation did not fail."""


class CheckpointTriggerResult(FlinkShape):
    checkpoint_id: int | None = Field(None, alias="checkpointId")
    """Absent: the checkpoint failed."""
    failure_cause: FailureCause | None = Field(None, alias="failureCause")
    """Absent: the checkpoint did not fail."""


class CheckpointTriggerStatus(FlinkShape):
    status: QueueStatus
    operation: CheckpointTriggerResult | None
    """Null: the checkpoint is under way."""


class CheckpointOrTrigger(RootModel[CheckpointResponse | CheckpointTriggerStatus]):
    """A checkpoint; or, for the id of a request, how the request went."""


class TriggerStatus(FlinkShape):
    status: QueueStatus
    operation: TriggerResult | None
    """Null: the operation is under way."""
