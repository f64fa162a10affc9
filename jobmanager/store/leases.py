"""The lease in Postgres: one statement takes it, one renews it, both by Postgres's clock.

`core.life.lease` defines the conditions, and a test compares the two. The conditions are checked
again inside the statement that acts on them, so the caller's view may be out of date.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, bindparam, delete, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession

from jobmanager.core.errors import NotLeading
from jobmanager.core.ids import JobManagerId
from jobmanager.core.life.lease import Candidate, Lease, Term
from jobmanager.services.ports.leadership import Election, JobManager
from jobmanager.store.outages import outages_named
from jobmanager.store.tables import JobManagerRow, LeaseRow

FORGOTTEN_AFTER = timedelta(minutes=5)
"""A JobManager that has not reported for this long is no longer listed."""


class PostgresLeases:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def look(self) -> Election:
        async with self._transaction() as connection:
            found = (
                await connection.execute(
                    select(
                        func.clock_timestamp(),
                        LeaseRow.term,
                        LeaseRow.holder,
                        LeaseRow.url,
                        LeaseRow.expires_at,
                    )
                )
            ).one()
            rows = await connection.execute(
                select(JobManagerRow.__table__).order_by(JobManagerRow.started_at)
            )
            return Election(
                at=found[0],
                lease=Lease(Term(found.term), found.holder, found.url, found.expires_at),
                jobmanagers=[_jobmanager(row) for row in rows],
            )

    async def take(
        self,
        candidate: Candidate,
        seen: Term,
        duration: timedelta,
        abandoned: datetime | None = None,
    ) -> Term | None:
        """Take the lease and return the new term; None: another JobManager has it."""
        free = or_(
            LeaseRow.holder.is_(None),
            LeaseRow.expires_at <= func.now(),
            LeaseRow.holder == candidate.predecessor,
            LeaseRow.expires_at == abandoned,
        )
        async with self._transaction() as connection:
            term = await connection.scalar(
                update(LeaseRow)
                .where(LeaseRow.term == seen, free)
                .values(
                    term=LeaseRow.term + 1,
                    holder=candidate.id,
                    url=candidate.url,
                    expires_at=func.clock_timestamp() + duration,
                )
                .returning(LeaseRow.term)
            )
        return None if term is None else Term(term)

    async def renew(self, term: Term, duration: timedelta) -> bool:
        """Renew the lease; False: it has another term, or has expired."""
        async with self._transaction() as connection:
            renewed = await connection.scalar(
                update(LeaseRow)
                .where(LeaseRow.term == term, LeaseRow.expires_at > func.clock_timestamp())
                .values(expires_at=func.clock_timestamp() + duration)
                .returning(LeaseRow.term)
            )
        return renewed is not None

    async def release(self, term: Term) -> None:
        """Let the lease expire now, so that the next leader need not wait."""
        async with self._transaction() as connection:
            await connection.execute(
                update(LeaseRow)
                .where(LeaseRow.term == term)
                .values(expires_at=func.least(LeaseRow.expires_at, func.clock_timestamp()))
            )

    async def attend(self, jobmanager: JobManager) -> None:
        """Record that a JobManager is alive, and delete those that have not reported for long."""
        values = {
            "url": jobmanager.url,
            "host": jobmanager.host,
            "pid": jobmanager.pid,
            "version": jobmanager.version,
            "started_at": jobmanager.started_at,
            "seen_at": func.clock_timestamp(),
            "warm": dict(jobmanager.warm) if jobmanager.warm is not None else None,
        }
        async with self._transaction() as connection:
            await connection.execute(
                insert(JobManagerRow)
                .values(id=jobmanager.id, **values)
                .on_conflict_do_update(index_elements=[JobManagerRow.id], set_=values)
            )
            await connection.execute(
                delete(JobManagerRow).where(JobManagerRow.seen_at < func.now() - FORGOTTEN_AFTER)
            )

    async def leave(self, jobmanager: JobManagerId) -> None:
        async with self._transaction() as connection:
            await connection.execute(delete(JobManagerRow).where(JobManagerRow.id == jobmanager))

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[AsyncConnection]:
        with outages_named():
            async with self._engine.begin() as connection:
                yield connection


def _jobmanager(row: Row[Any]) -> JobManager:
    return JobManager(
        id=JobManagerId(row.id),
        url=row.url,
        host=row.host,
        pid=row.pid,
        version=row.version,
        started_at=row.started_at,
        seen_at=row.seen_at,
        warm=row.warm,
    )


_MINE = (
    select(LeaseRow.id)
    .where(LeaseRow.term == bindparam("term"), LeaseRow.expires_at > func.clock_timestamp())
    .with_for_update(read=True, key_share=True)
)


async def check_term(session: AsyncSession, term: Term | None) -> None:
    """Fence a transaction: raise `NotLeading`, or keep the term unchanged until the session
    commits.

    Taking the lease changes the term, which is a key, and so waits for the commit. A renewal does
    not wait, since it does not change the key.
    """
    if term is not None and await session.scalar(_MINE, {"term": term}) is not None:
        return
    raise NotLeading("this JobManager has lost the leadership and changed nothing: try again")
