"""Savepoints and operations in the database."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from jobmanager.core.ids import (
    JobId,
    OperationId,
    SavepointId,
)
from jobmanager.core.life.records import Savepoint, StoredOperation


class Savepoints(Protocol):
    async def add(self, savepoint: Savepoint) -> None: ...
    async def get(self, savepoint_id: SavepointId) -> Savepoint: ...
    async def save(self, savepoint: Savepoint) -> None: ...
    async def at(self, directory: str) -> Savepoint | None: ...
    async def lock_place(self, directory: str) -> None:
        """Keeps out whoever else does so for this directory, until the transaction ends: for
        savepoints that no job of ours has written.
        """

    async def all(self, limit: int, before: datetime | None) -> Sequence[Savepoint]: ...


class Operations(Protocol):
    async def get(self, operation_id: OperationId) -> StoredOperation | None: ...
    async def of_job(self, job_id: JobId) -> Sequence[StoredOperation]: ...
    async def under_way(self, job_id: JobId) -> StoredOperation | None: ...
    async def changes_under_way(self) -> Sequence[StoredOperation]: ...
