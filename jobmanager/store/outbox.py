"""The outbox in Postgres."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from jobmanager.core.effects import Effect
from jobmanager.core.ids import AttemptNumber, JobId
from jobmanager.services.ports import OutboxEntry
from jobmanager.store import effect_codec
from jobmanager.store.tables import OutboxRow


class PostgresOutbox:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session
        self.added_for: set[JobId] = set()
        """The jobs with new effects in this transaction."""

    async def add(self, job_id: JobId, effects: Iterable[Effect], at: datetime) -> None:
        rows = []
        for effect in effects:
            kind, payload = effect_codec.encode(effect)
            rows.append(
                {
                    "job_id": job_id,
                    "attempt": effect_codec.attempt_of(effect),
                    "target": effect_codec.target_of(effect),
                    "kind": kind,
                    "payload": payload,
                    "created_at": at,
                    "due_at": at,
                    "tries": 0,
                }
            )
        if rows:
            self.added_for.add(job_id)
            await self._session.execute(insert(OutboxRow), rows)

    async def due(self, now: datetime, limit: int) -> Sequence[OutboxEntry]:
        rows = await self._session.scalars(
            select(OutboxRow)
            .where(OutboxRow.target == "jobmanager", OutboxRow.due_at <= now)
            .order_by(OutboxRow.id)
            .limit(limit)
        )
        return [_entry(row) for row in rows]

    async def done(self, entry_id: int) -> None:
        await self._session.execute(delete(OutboxRow).where(OutboxRow.id == entry_id))

    async def postpone(self, entry_id: int, until: datetime, error: str) -> None:
        await self._session.execute(
            update(OutboxRow)
            .where(OutboxRow.id == entry_id)
            .values(due_at=until, tries=OutboxRow.tries + 1, last_error=error)
            .execution_options(synchronize_session=False)
        )

    async def directives(
        self, job_id: JobId, attempt: AttemptNumber, after: int
    ) -> Sequence[OutboxEntry]:
        rows = await self._session.scalars(
            select(OutboxRow)
            .where(
                OutboxRow.target == "runner",
                OutboxRow.job_id == job_id,
                OutboxRow.attempt == attempt,
                OutboxRow.id > after,
            )
            .order_by(OutboxRow.id)
        )
        return [_entry(row) for row in rows]

    async def taken(self, job_id: JobId, attempt: AttemptNumber, up_to: int) -> None:
        """The runner has the directives up to this one."""
        await self._delete(job_id, attempt, OutboxRow.id <= up_to)

    async def forget(self, job_id: JobId, attempt: AttemptNumber) -> None:
        """The runner is gone: nobody will take them."""
        await self._delete(job_id, attempt)

    async def _delete(
        self, job_id: JobId, attempt: AttemptNumber, *more: ColumnElement[bool]
    ) -> None:
        await self._session.execute(
            delete(OutboxRow).where(
                OutboxRow.target == "runner",
                OutboxRow.job_id == job_id,
                OutboxRow.attempt == attempt,
                *more,
            )
        )


def _entry(row: OutboxRow) -> OutboxEntry:
    effect = effect_codec.decode(row.kind, row.payload)
    return OutboxEntry(row.id, JobId(row.job_id), effect, row.tries)
