"""The history in Postgres: entries in an order without gaps, with notifications for listeners.

Ids come from a sequence, and a sequence does not follow the order of commits: of two transactions,
the one with the higher id may commit first, and a reader that continues after that id would never
see the other. So the entries of a transaction are written by its last statements, under a lock that
is held until the commit: ids ascend in the order in which entries become visible, and "after id n"
misses nothing. (Postgres releases a transaction's locks only after its changes are visible.) The
lock is taken last and nothing is waited for while it is held, so it cannot take part in a deadlock;
and NOTIFY makes its senders commit one by one anyway. The alternative, reading only below the
oldest transaction under way, would let one slow transaction in the whole cluster hold up every
stream.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import and_, func, insert, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from jobmanager.core.ids import AttemptNumber, CheckpointNumber, JobId
from jobmanager.core.life.health import shown_state
from jobmanager.core.life.records import HistoryEntry
from jobmanager.protocol.progress_json import progress_from_json
from jobmanager.services.events import HISTORY_CHANNEL, LIVE_CHANNEL
from jobmanager.services.ports.history import Actor, HistoryFilter, LiveProgress, Recorded
from jobmanager.store.tables import IS_LIVE, AttemptRow, HistoryRow, JobRow, table_of

_ORDER_LOCK = 0x4849_5354
_MOST_OF_A_PAYLOAD = 7_500
"""Postgres accepts payloads of less than 8,000 bytes."""

_TAKE_ORDER_LOCK = select(func.pg_advisory_xact_lock(_ORDER_LOCK))
_ADD = insert(table_of(HistoryRow))
_TELL = select(func.pg_notify(HISTORY_CHANNEL, ""))
_NOTIFY = "SELECT pg_notify(:channel, told) FROM unnest(CAST(:payloads AS text[])) AS told"


class PostgresHistory:
    def __init__(self, session: AsyncSession, actor: Actor, actor_name: str | None = None) -> None:
        self._session = session
        self._actor = actor
        self._actor_name = actor_name
        self._rows: list[dict[str, Any]] = []
        self._announcements: list[str] = []

    async def add(self, job_id: JobId, *entries: HistoryEntry) -> None:
        """Add an entry, which is written when the transaction is committed."""
        self._rows += [
            {
                "job_id": job_id,
                "at": entry.at,
                "kind": entry.kind,
                "cause": entry.cause,
                "attempt": entry.attempt,
                "checkpoint": entry.checkpoint,
                "detail": dict(entry.detail),
                "actor": self._actor,
                "actor_name": self._actor_name,
            }
            for entry in entries
        ]

    async def announce(self, job_id: JobId, kind: str, facts: Mapping[str, Any]) -> None:
        """Send a live event at the commit. Lists in `facts` are left out if it would be too
        long."""
        event = {"kind": kind, "job": job_id.hex, **facts}
        payload = json.dumps(event)
        if len(payload) > _MOST_OF_A_PAYLOAD:
            short = {name: value for name, value in event.items() if not isinstance(value, list)}
            payload = json.dumps(short)
        self._announcements.append(payload)

    async def write(self) -> None:
        """Write the entries; called last, just before the commit."""
        rows, self._rows = self._rows, []
        announcements, self._announcements = self._announcements, []
        if announcements:
            told = {"channel": LIVE_CHANNEL, "payloads": announcements}
            await self._session.execute(text(_NOTIFY), told)
        if rows:
            await self._session.execute(_TAKE_ORDER_LOCK)
            await self._session.execute(_ADD, rows)
            await self._session.execute(_TELL)

    async def after(
        self, after: int, limit: int, job_id: JobId | None = None
    ) -> Sequence[Recorded]:
        query = (
            select(HistoryRow, JobRow.name, JobRow.status, JobRow.health)
            .join(JobRow, JobRow.id == HistoryRow.job_id)
            .where(HistoryRow.id > after)
            .order_by(HistoryRow.id)
            .limit(limit)
        )
        if job_id is not None:
            query = query.where(HistoryRow.job_id == job_id)
        rows = await self._session.execute(query)
        return [_recorded(row, name, status, health) for row, name, status, health in rows]

    async def of_job(self, job_id: JobId, wanted: HistoryFilter) -> Sequence[Recorded]:
        newest_first, cursor = wanted.newest_first, wanted.cursor
        query = (
            select(HistoryRow, JobRow.name, JobRow.status, JobRow.health)
            .join(JobRow, JobRow.id == HistoryRow.job_id)
            .where(HistoryRow.job_id == job_id)
            .order_by(HistoryRow.id.desc() if newest_first else HistoryRow.id)
            .limit(wanted.limit)
        )
        if cursor is not None:
            query = query.where(HistoryRow.id < cursor if newest_first else HistoryRow.id > cursor)
        if wanted.kinds:
            query = query.where(HistoryRow.kind.in_(wanted.kinds))
        if wanted.since is not None:
            query = query.where(HistoryRow.at >= wanted.since)
        rows = await self._session.execute(query)
        return [_recorded(row, name, status, health) for row, name, status, health in rows]

    async def newest(self) -> int:
        return int(await self._session.scalar(select(func.max(HistoryRow.id))) or 0)

    async def progress(self) -> Sequence[LiveProgress]:
        """Return the progress of every job whose attempt has reported any and has not ended."""
        current = and_(AttemptRow.job_id == JobRow.id, AttemptRow.number == JobRow.attempt)
        rows = await self._session.execute(
            select(
                JobRow.id,
                JobRow.name,
                JobRow.status,
                JobRow.health,
                AttemptRow.number,
                AttemptRow.progress_at,
                AttemptRow.progress,
            )
            .join(AttemptRow, current)
            .where(IS_LIVE)
            .where(AttemptRow.ended_at.is_(None), AttemptRow.progress_at.is_not(None))
        )
        return [
            LiveProgress(
                JobId(job_id),
                name,
                shown_state(status, health),
                AttemptNumber(number),
                at,
                progress_from_json(regions),
            )
            for job_id, name, status, health, number, at, regions in rows
        ]


def _recorded(row: HistoryRow, name: str, status: str, health: str) -> Recorded:
    return Recorded(
        id=row.id,
        job_id=JobId(row.job_id),
        job_name=name,
        job_state=shown_state(status, health),
        actor=Actor(row.actor),
        actor_name=row.actor_name,
        entry=HistoryEntry(
            at=row.at,
            kind=row.kind,
            cause=row.cause,
            attempt=AttemptNumber(row.attempt) if row.attempt is not None else None,
            checkpoint=CheckpointNumber(row.checkpoint) if row.checkpoint is not None else None,
            detail=row.detail,
        ),
    )
