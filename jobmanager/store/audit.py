"""The audit in Postgres: one row for every request that would change something."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import bindparam, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from jobmanager.core.access.roles import Role
from jobmanager.services.ports.access import AuditEntry
from jobmanager.store.outages import outages_named
from jobmanager.store.tables import AuditRow, table_of

_BEGIN = insert(table_of(AuditRow)).returning(AuditRow.id)
_END = (
    update(table_of(AuditRow))
    .where(AuditRow.id == bindparam("entry"))
    .values(status=bindparam("said"), subject=bindparam("about"))
)


class PostgresAudit:
    """Each method is one statement, and a transaction of its own: the row stays if the request is
    rolled back.
    """

    def __init__(self, sessions: async_sessionmaker[AsyncSession]) -> None:
        self._sessions = sessions

    async def begin(self, entry: AuditEntry) -> int:
        values = {
            "at": entry.at,
            "actor": entry.actor,
            "role": entry.role,
            "origin": entry.origin,
            "method": entry.method,
            "route": entry.route,
            "subject": entry.subject,
            "status": entry.status,
            "forwarded_by": entry.forwarded_by,
        }
        with outages_named():
            async with self._sessions.begin() as session:
                made = await session.scalar(_BEGIN, values)
        assert made is not None
        return int(made)

    async def end(self, entry_id: int, status: int, subject: str | None) -> None:
        values = {"entry": entry_id, "said": status, "about": subject}
        with outages_named():
            async with self._sessions.begin() as session:
                await session.execute(_END, values)

    async def before(self, before: int | None, limit: int) -> Sequence[AuditEntry]:
        query = select(AuditRow).order_by(AuditRow.id.desc()).limit(limit)
        if before is not None:
            query = query.where(AuditRow.id < before)
        with outages_named():
            async with self._sessions() as session:
                return [_entry(row) for row in await session.scalars(query)]

    async def prune(self, before: datetime, limit: int) -> int:
        old = select(AuditRow.id).where(AuditRow.at < before).limit(limit)
        with outages_named():
            async with self._sessions.begin() as session:
                gone = await session.execute(
                    delete(AuditRow).where(AuditRow.id.in_(old)).returning(AuditRow.id)
                )
                return len(gone.all())


def _entry(row: AuditRow) -> AuditEntry:
    return AuditEntry(
        at=row.at,
        actor=row.actor,
        role=Role(row.role),
        origin=row.origin,
        method=row.method,
        route=row.route,
        subject=row.subject,
        status=row.status,
        forwarded_by=row.forwarded_by,
        id=row.id,
    )
