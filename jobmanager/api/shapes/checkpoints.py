"""Checkpoints, their acks, and what looking at their files found."""

from datetime import datetime
from typing import Any

from jobmanager.api.shapes.shape import Shape
from jobmanager.core.life.checkpoint import AbortReason, CheckpointKind, CheckpointStatus
from jobmanager.core.plan.job_plan import SnapshotKind


class CheckpointTriggered(Shape):
    number: int


class SubtaskResponse(Shape):
    region: str
    vertex: str
    subtask: int


class AckResponse(SubtaskResponse):
    acked_at: datetime
    kind: SnapshotKind
    pointer: str | None
    """The file with the state, relative to where the job's checkpoints are."""
    version: int | None
    """Of `state`: Spark's state version. Of `offsets` and `sink`: the batch."""
    bytes: int
    key_groups: list[int]
    offsets: Any
    """Of a source, as Spark writes them; null: not a source."""
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
    """Region to the batch that was the barrier."""
    bytes: int
    new_bytes: int
    """What this checkpoint added to the job's pool of files."""
    manifest: str | None
    discarded_at: datetime | None
    failure: CheckpointFailure | None
    acks: list[AckResponse]
    awaited: list[SubtaskResponse]


class VerificationResponse(Shape):
    files: int
    bytes: int
    faults: list[str]
    """What is missing, truncated or altered; empty: every file is as it was written."""
