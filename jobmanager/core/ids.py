"""Identifiers. Distinct types, so that one id cannot be passed for another."""

from dataclasses import dataclass
from typing import NewType
from uuid import UUID

JobId = NewType("JobId", UUID)
RunnerId = NewType("RunnerId", UUID)
SavepointId = NewType("SavepointId", UUID)
OperationId = NewType("OperationId", UUID)
JobManagerId = NewType("JobManagerId", UUID)
"""A server process: a server that starts again has another id."""
ArtifactId = NewType("ArtifactId", str)
"""The SHA-256 of the artifact's content, 64 hexadecimal digits."""
VertexId = NewType("VertexId", str)
RegionId = NewType("RegionId", str)
"""A region is named by its sink."""
AttemptNumber = NewType("AttemptNumber", int)
"""Ascends within a job from 1. It is the fencing token."""
FIRST_ATTEMPT = AttemptNumber(1)
CheckpointNumber = NewType("CheckpointNumber", int)
"""Ascends within a job from 1, and is never reused."""


@dataclass(frozen=True, slots=True, order=True)
class SubtaskRef:
    """A participant of a checkpoint, which must ack its barrier.

    A vertex that two regions share runs once in each of them, with separate offsets and state, so
    the region is part of the name.
    """

    region: RegionId
    vertex: VertexId
    subtask: int
