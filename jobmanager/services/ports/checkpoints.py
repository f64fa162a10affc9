"""Reads checkpoints in the database, and notes who asked for them. They are written by way of
`lives`.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from jobmanager.core.ids import (
    CheckpointNumber,
    JobId,
    OperationId,
)
from jobmanager.core.life.records import StoredCheckpoint


class Checkpoints(Protocol):
    async def get(self, job_id: JobId, number: CheckpointNumber) -> StoredCheckpoint: ...
    async def of_job(self, job_id: JobId, limit: int) -> Sequence[StoredCheckpoint]: ...
    async def counts(self, job_id: JobId) -> Mapping[str, int]: ...
    async def restorable(self, job_id: JobId) -> Sequence[CheckpointNumber]: ...
    async def note_discarded(
        self, job_id: JobId, number: CheckpointNumber, at: datetime
    ) -> None: ...
    async def expired(self, now: datetime) -> Sequence[tuple[JobId, CheckpointNumber]]: ...
    async def triggered_by(self, job_id: JobId, trigger: OperationId) -> CheckpointNumber | None:
        """Return the checkpoint that was asked for with this trigger id; None: there is none."""
        ...

    async def note_trigger(
        self, job_id: JobId, number: CheckpointNumber, trigger: OperationId
    ) -> None: ...
