"""Savepoints and operations in Postgres."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from jobmanager.core.errors import SavepointNotFound
from jobmanager.core.ids import CheckpointNumber, JobId, OperationId, SavepointId
from jobmanager.core.life.change import Change, Revision
from jobmanager.core.life.operation import Operation, OperationKind, OperationPhase, OperationStatus
from jobmanager.core.life.records import Savepoint, StoredOperation
from jobmanager.core.life.savepoint import SavepointStatus
from jobmanager.store.tables import OperationRow, SavepointRow


class PostgresSavepoints:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def add(self, savepoint: Savepoint) -> None:
        await self._session.execute(insert(SavepointRow).values(**_savepoint_values(savepoint)))

    async def get(self, savepoint_id: SavepointId) -> Savepoint:
        found = await self._one(SavepointRow.id == savepoint_id)
        if found is None:
            raise SavepointNotFound(f"savepoint {savepoint_id.hex} not found")
        return found

    async def save(self, savepoint: Savepoint) -> None:
        await self._session.execute(
            update(SavepointRow)
            .where(SavepointRow.id == savepoint.id)
            .values(**_savepoint_values(savepoint))
            .execution_options(synchronize_session=False)
        )

    async def at(self, directory: str) -> Savepoint | None:
        return await self._one(SavepointRow.directory == directory)

    async def lock_place(self, directory: str) -> None:
        lock = func.pg_advisory_xact_lock(func.hashtextextended(f"savepoint {directory}", 0))
        await self._session.execute(select(lock))

    async def all(self, limit: int, before: datetime | None) -> Sequence[Savepoint]:
        query = select(SavepointRow).order_by(SavepointRow.created_at.desc()).limit(limit)
        if before is not None:
            query = query.where(SavepointRow.created_at < before)
        return [savepoint_of(row) for row in await self._session.scalars(query)]

    async def _one(self, *conditions: ColumnElement[bool]) -> Savepoint | None:
        row = await self._session.scalar(
            select(SavepointRow).where(*conditions).execution_options(populate_existing=True)
        )
        return savepoint_of(row) if row else None


class PostgresOperations:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def add(self, operation: StoredOperation) -> None:
        await self._session.execute(insert(OperationRow).values(**_operation_values(operation)))

    async def get(self, operation_id: OperationId) -> StoredOperation | None:
        return await self._one(OperationRow.id == operation_id)

    async def save(self, operation: StoredOperation) -> None:
        await self._session.execute(
            update(OperationRow)
            .where(OperationRow.id == operation.id)
            .values(**_operation_values(operation))
            .execution_options(synchronize_session=False)
        )

    async def of_job(self, job_id: JobId) -> Sequence[StoredOperation]:
        rows = await self._session.scalars(
            select(OperationRow)
            .where(OperationRow.job_id == job_id)
            .order_by(OperationRow.created_at.desc())
        )
        return [operation_of(row) for row in rows]

    async def under_way(self, job_id: JobId) -> StoredOperation | None:
        """Return the operation under way that stops or changes the job, if there is one."""
        return await self._one(
            OperationRow.job_id == job_id,
            OperationRow.status == OperationStatus.IN_PROGRESS,
            OperationRow.kind != OperationKind.SAVEPOINT,
        )

    async def changes_under_way(self) -> Sequence[StoredOperation]:
        rows = await self._session.scalars(
            select(OperationRow).where(
                OperationRow.status == OperationStatus.IN_PROGRESS, OperationRow.change.is_not(None)
            )
        )
        return [operation_of(row) for row in rows]

    async def _one(self, *conditions: ColumnElement[bool]) -> StoredOperation | None:
        row = await self._session.scalar(
            select(OperationRow).where(*conditions).execution_options(populate_existing=True)
        )
        return operation_of(row) if row else None


def _savepoint_values(savepoint: Savepoint) -> dict[str, Any]:
    return asdict(savepoint)


def savepoint_of(row: Any) -> Savepoint:
    return Savepoint(
        id=SavepointId(row.id),
        job_id=JobId(row.job_id) if row.job_id else None,
        checkpoint=CheckpointNumber(row.checkpoint),
        directory=row.directory,
        status=SavepointStatus(row.status),
        created_at=row.created_at,
        parallelism=row.parallelism,
        max_parallelism=row.max_parallelism,
        graph_revision=row.graph_revision,
        parent=row.parent,
        completed_at=row.completed_at,
        disposed_at=row.disposed_at,
        failure=row.failure,
        bytes=row.bytes,
        regions=row.regions,
        labels=row.labels,
        drained=row.drained,
    )


def _operation_values(stored: StoredOperation) -> dict[str, Any]:
    operation = stored.operation
    return {
        "id": stored.id,
        "job_id": stored.job_id,
        "savepoint_id": stored.savepoint_id,
        "kind": operation.kind,
        "status": operation.status,
        "phases": [_phase_values(phase) for phase in operation.phases],
        "error": operation.error,
        "created_at": stored.created_at,
        "ended_at": operation.ended_at,
        "change": asdict(stored.change) if stored.change else None,
    }


def _phase_values(phase: OperationPhase) -> dict[str, Any]:
    return {
        "name": phase.name,
        "started_at": phase.started_at.isoformat(),
        "ended_at": phase.ended_at.isoformat() if phase.ended_at else None,
        "detail": phase.detail,
    }


def _phase(values: dict[str, Any]) -> OperationPhase:
    ended = values["ended_at"]
    return OperationPhase(
        values["name"],
        datetime.fromisoformat(values["started_at"]),
        datetime.fromisoformat(ended) if ended else None,
        values["detail"],
    )


def operation_of(row: Any) -> StoredOperation:
    operation = Operation(
        kind=OperationKind(row.kind),
        phases=tuple(_phase(values) for values in row.phases),
        status=OperationStatus(row.status),
        error=row.error,
        ended_at=row.ended_at,
    )
    return StoredOperation(
        OperationId(row.id),
        JobId(row.job_id),
        SavepointId(row.savepoint_id) if row.savepoint_id else None,
        operation,
        row.created_at,
        _change(row.change) if row.change else None,
    )


def _change(values: dict[str, Any]) -> Change:
    before, after = Revision(**values["before"]), Revision(**values["after"])
    return Change(before, after, values["allow_non_restored_state"])
