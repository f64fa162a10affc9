"""How far signals have come, and what has ended lately, in Postgres."""

from collections.abc import Sequence, Set
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import select, text, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from jobmanager.core.ids import JobId
from jobmanager.core.life.records import StoredAttempt, StoredCheckpoint, StoredOperation
from jobmanager.services.ports.signals import EndedWork, SignalCursor, WorkKey
from jobmanager.store import mapping
from jobmanager.store.savepoints import operation_of
from jobmanager.store.tables import (
    AttemptRow,
    CheckpointRow,
    JobRow,
    OperationRow,
    SignalCursorRow,
    SubtaskRow,
)

CHECKPOINT, OPERATION, ATTEMPT = "checkpoint", "operation", "attempt"
_ENDED = """
SELECT {id}, {number}, ended_at FROM {table}
WHERE ended_at > :after ORDER BY ended_at LIMIT :limit
"""
_KINDS = {
    CHECKPOINT: _ENDED.format(id="job_id", number="number", table="checkpoints"),
    OPERATION: _ENDED.format(id="id", number="0", table="operations"),
    ATTEMPT: _ENDED.format(id="job_id", number="number", table="attempts"),
}


class PostgresSignalCursors:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def get(self, name: str) -> SignalCursor | None:
        row = await self._session.scalar(
            select(SignalCursorRow).where(SignalCursorRow.name == name)
        )
        return None if row is None else SignalCursor(row.history_id, row.at)

    async def put(self, name: str, cursor: SignalCursor) -> None:
        values = {"history_id": cursor.history_id, "at": cursor.at}
        await self._session.execute(
            insert(SignalCursorRow)
            .values(name=name, **values)
            .on_conflict_do_update(index_elements=["name"], set_=values)
        )

    async def ended_after(self, after: datetime, seen: Set[WorkKey], limit: int) -> EndedWork:
        keys: dict[WorkKey, datetime] = {}
        reached: list[datetime] = []
        for kind, query in _KINDS.items():
            asked = {"after": after, "limit": limit + len(seen)}
            rows = (await self._session.execute(text(query), asked)).all()
            news = [((kind, one, number), at) for one, number, at in rows]
            news = [(key, at) for key, at in news if key not in seen]
            keys.update(news[:limit])
            if len(news) > limit:
                reached.append(news[limit - 1][1])
        checkpoints = await self._checkpoints(_pairs(keys, CHECKPOINT))
        operations = await self._operations(_pairs(keys, OPERATION))
        attempts = await self._attempts(_pairs(keys, ATTEMPT))
        jobs = {one.job_id for one in checkpoints} | {one.job_id for one in operations}
        jobs |= {one.job_id for one in attempts}
        return EndedWork(
            checkpoints=checkpoints,
            operations=operations,
            attempts=attempts,
            names=await self._names(jobs),
            keys=keys,
            up_to=min(reached) if reached else max(keys.values(), default=None),
        )

    async def _checkpoints(self, pairs: list[tuple[UUID, int]]) -> Sequence[StoredCheckpoint]:
        if not pairs:
            return []
        rows = await self._session.scalars(
            select(CheckpointRow).where(
                tuple_(CheckpointRow.job_id, CheckpointRow.number).in_(pairs)
            )
        )
        subtasks: dict[tuple[UUID, int], list[Any]] = {}
        for one in await self._session.scalars(
            select(SubtaskRow)
            .where(tuple_(SubtaskRow.job_id, SubtaskRow.checkpoint).in_(pairs))
            .order_by(SubtaskRow.region, SubtaskRow.vertex, SubtaskRow.subtask)
        ):
            subtasks.setdefault((one.job_id, one.checkpoint), []).append(one)
        return [
            mapping.stored_checkpoint(row, subtasks.get((row.job_id, row.number), []))
            for row in rows
        ]

    async def _operations(self, pairs: list[tuple[UUID, int]]) -> Sequence[StoredOperation]:
        if not pairs:
            return []
        ids = [one for one, _ in pairs]
        rows = await self._session.scalars(select(OperationRow).where(OperationRow.id.in_(ids)))
        return [operation_of(row) for row in rows]

    async def _attempts(self, pairs: list[tuple[UUID, int]]) -> Sequence[StoredAttempt]:
        if not pairs:
            return []
        rows = await self._session.scalars(
            select(AttemptRow).where(tuple_(AttemptRow.job_id, AttemptRow.number).in_(pairs))
        )
        return [mapping.stored_attempt(row) for row in rows]

    async def _names(self, jobs: Set[JobId]) -> dict[JobId, str]:
        if not jobs:
            return {}
        rows = await self._session.execute(
            select(JobRow.id, JobRow.name).where(JobRow.id.in_(jobs))
        )
        return {JobId(job_id): name for job_id, name in rows}


def _pairs(keys: dict[WorkKey, datetime], wanted: str) -> list[tuple[UUID, int]]:
    return [(one, number) for kind, one, number in keys if kind == wanted]
