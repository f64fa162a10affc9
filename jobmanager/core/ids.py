"""Identifiers. Distinct types, so that one id cannot be passed for another."""

from dataclasses import dataclass
from typing import NewType
from uuid import UUID

JobId = NewType("JobId", UUID)
RunnerId = NewType("RunnerId", UUID)
SavepointId = NewType("SavepointId", UUID)
OperationId = NewType("OperationId", UUID)
JobManagerId = NewType("JobManagerId", UUID)
"""One process: a server that starts again is another."""
ArtifactId = NewType("ArtifactId", str)
"""The SHA-256 of its content, 64 hexadecimal digits."""
VertexId = NewType("VertexId", str)
RegionId = NewType("RegionId", str)
"""A region is named by its sink."""
AttemptNumber = NewType("AttemptNumber", int)
"""Ascending within one job from 1. It is the fencing token."""
FIRST_ATTEMPT = AttemptNumber(1)
CheckpointNumber = NewType("CheckpointNumber", int)
"""Ascending within one job from 1, never reused."""


@dataclass(frozen=True, slots=True, order=True)
class SubtaskRef:
    """One participant of a checkpoint: who must ack a barrier.

    A vertex that two regions share runs once in each of them, with offsets and
    state of its own, so the region belongs to the name.
    """

    region: RegionId
    vertex: VertexId
    subtask: int
