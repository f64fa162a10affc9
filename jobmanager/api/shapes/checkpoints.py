"""Checkpoints, their acks, and the results of verifying their files."""

from datetime import datetime
from typing import Any

from pydantic import Field

from jobmanager.api.shapes.shape import Shape
from jobmanager.core.life.checkpoint import AbortReason, CheckpointKind, CheckpointStatus
from jobmanager.core.plan.job_plan import SnapshotKind


class CheckpointTriggered(Shape):
    """Our form and Flink's in one answer."""

    number: int
    request_id: str = Field(alias="request-id")
    """With which Flink's clients ask for the outcome."""


class SubtaskResponse(Shape):
    region: str
    vertex: str
    subtask: int


class AckResponse(SubtaskResponse):
    acked_at: datetime
    waited_ms: int | None
    """How long the runner waited for the end of the region's batch; null: unknown."""
    snapshot_ms: int | None
    """How long the runner then took to write the snapshots of all subtasks; null: unknown."""
    kind: SnapshotKind
    pointer: str | None
    """The file with the state, relative to where the job's checkpoints are."""
    version: int | None
    """For `state`: Spark's state version. For `offsets` and `sink`: the batch."""
    bytes: int
    key_groups: list[int]
    offsets: Any
    """A source's offsets, as Spark writes them; null: not a source."""
    watermark: datetime | None


class CheckpointFailure(Shape):
    reason: AbortReason
    detail: str | None


class CheckpointResponse(Shape):
    number: int
    kind: CheckpointKind
    status: CheckpointStatus
    attempt: int
    triggered_at: datetime
    completed_at: datetime | None
    batch: dict[str, int | None]
    """By region, the batch that was the barrier."""
    bytes: int
    new_bytes: int
    """Bytes that this checkpoint added to the job's pool of files."""
    manifest: str | None
    discarded_at: datetime | None
    failure: CheckpointFailure | None
    acks: list[AckResponse]
    awaited: list[SubtaskResponse]


class VerificationResponse(Shape):
    files: int
    bytes: int
    faults: list[str]
    """Files that are missing, truncated or altered; empty: every file is as it was written."""
