"""The outbox in Postgres."""

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, select, text, update
from sqlalchemy.ext.asyncio import AsyncSession

from jobmanager.core.ids import AttemptNumber, JobId, RunnerId
from jobmanager.core.life.effects import Effect
from jobmanager.core.life.lanes import HOLDS_BACK_FOR_TRIES, LANES, OutboxLane
from jobmanager.services.ports.outbox import Mailbox, OutboxEntry
from jobmanager.store import effect_codec
from jobmanager.store.tables import OutboxRow

_ADD = """
INSERT INTO outbox (job_id, attempt, target, kind, payload, created_at, due_at, tries)
SELECT job_id, attempt, target, kind, payload, at, at, 0
FROM ROWS FROM (
    jsonb_to_recordset(CAST(:rows AS jsonb)) AS (
        job_id uuid, attempt bigint, target text, kind text, payload jsonb, at timestamptz)
) WITH ORDINALITY AS r(job_id, attempt, target, kind, payload, at, place)
ORDER BY place
"""
# `core.life.lanes.ready`, for many jobs at once.
_DUE = """
SELECT o.id, o.job_id, o.kind, o.payload, o.tries, o.last_error FROM outbox o
WHERE o.target = 'jobmanager' AND o.kind = ANY(:kinds) AND o.due_at <= :now
      AND o.job_id <> ALL(CAST(:busy AS uuid[]))
      AND NOT (:is_ordered AND EXISTS (
          SELECT 1 FROM outbox older
          WHERE older.target = 'jobmanager' AND older.kind = ANY(:kinds)
                AND older.job_id = o.job_id AND older.id < o.id
                AND older.due_at > :now AND older.tries < :holds_back_for))
ORDER BY o.id LIMIT :limit
"""
_MAILBOXES = """
SELECT r.id AS runner, r.job_id, r.attempt, r.token_hash, r.protocol,
       o.id, o.kind, o.payload, o.tries
FROM runners r LEFT JOIN outbox o
     ON o.target = 'runner' AND o.job_id = r.job_id AND o.attempt = r.attempt
        AND o.kind = ANY(:known)
WHERE r.id = ANY(:ids) ORDER BY o.id
"""
_TAKEN = """
DELETE FROM outbox o
USING jsonb_to_recordset(CAST(:rows AS jsonb)) AS t(job_id uuid, attempt bigint, up_to bigint)
WHERE o.target = 'runner' AND o.job_id = t.job_id AND o.attempt = t.attempt AND o.id <= t.up_to
      AND o.kind = ANY(:known)
"""
_KNOWN = list(effect_codec.KNOWN)


class PostgresOutbox:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session
        self._rows: list[dict[str, Any]] = []
        self.added_for: set[JobId] = set()
        """The jobs with new effects in this transaction whose runners are to be woken."""
        self.has_news = False
        """Whether there are new effects for the JobManager."""

    async def add(
        self, job_id: JobId, effects: Iterable[Effect], at: datetime, *, wakes: bool = True
    ) -> None:
        for effect in effects:
            kind, payload = effect_codec.encode(effect)
            target = effect_codec.target_of(effect)
            self._rows.append(
                {
                    "job_id": str(job_id),
                    "attempt": effect_codec.attempt_of(effect),
                    "target": target,
                    "kind": kind,
                    "payload": payload,
                    "at": at.isoformat(),
                }
            )
            self.has_news |= target == "jobmanager"
            if wakes:
                self.added_for.add(job_id)

    async def write(self) -> None:
        """Write the added effects, in order."""
        rows, self._rows = self._rows, []
        if rows:
            await self._session.execute(text(_ADD), {"rows": json.dumps(rows)})

    async def due(
        self, lane: OutboxLane, now: datetime, busy: Set[JobId], limit: int
    ) -> Sequence[OutboxEntry]:
        asked = {
            "kinds": [kind.__name__ for kind, one in LANES.items() if one is lane],
            "now": now,
            "busy": [str(job_id) for job_id in busy],
            "is_ordered": lane.is_ordered,
            "holds_back_for": HOLDS_BACK_FOR_TRIES,
            "limit": limit,
        }
        rows = await self._session.execute(text(_DUE), asked)
        return [
            OutboxEntry(
                row.id,
                JobId(row.job_id),
                effect_codec.decode(row.kind, row.payload),
                row.tries,
                last_error=row.last_error,
            )
            for row in rows
        ]

    async def unknown(self) -> Mapping[str, int]:
        found = await self._session.execute(
            select(OutboxRow.kind, func.count())
            .where(OutboxRow.kind.not_in(effect_codec.KNOWN))
            .group_by(OutboxRow.kind)
        )
        return {str(kind): int(count) for kind, count in found}

    async def done(self, entries: Sequence[int]) -> None:
        await self._session.execute(delete(OutboxRow).where(OutboxRow.id.in_(entries)))

    async def postpone(
        self, entry_id: int, until: datetime, error: str, *, is_failure: bool = True
    ) -> None:
        await self._session.execute(
            update(OutboxRow)
            .where(OutboxRow.id == entry_id)
            .values(due_at=until, tries=OutboxRow.tries + int(is_failure), last_error=error)
            .execution_options(synchronize_session=False)
        )

    async def mailboxes(self, runners: Sequence[RunnerId]) -> Mapping[RunnerId, Mailbox]:
        rows = await self._session.execute(
            text(_MAILBOXES), {"ids": list(runners), "known": _KNOWN}
        )
        found: dict[RunnerId, Mailbox] = {}
        for row in rows:
            job_id, attempt = JobId(row.job_id), AttemptNumber(row.attempt)
            box = Mailbox(job_id, attempt, row.token_hash, row.protocol, [])
            box = found.setdefault(RunnerId(row.runner), box)
            if row.id is not None:
                effect = effect_codec.decode(row.kind, row.payload)
                box.entries.append(OutboxEntry(row.id, box.job_id, effect, row.tries))
        return found

    async def taken(self, up_to: Mapping[tuple[JobId, AttemptNumber], int]) -> None:
        rows = [
            {"job_id": str(job_id), "attempt": attempt, "up_to": last}
            for (job_id, attempt), last in up_to.items()
        ]
        await self._session.execute(text(_TAKEN), {"rows": json.dumps(rows), "known": _KNOWN})

    async def forget(self, job_id: JobId, attempt: AttemptNumber) -> None:
        """Delete the directives of a runner that has exited."""
        await self.write()
        await self._session.execute(
            delete(OutboxRow).where(
                OutboxRow.target == "runner",
                OutboxRow.job_id == job_id,
                OutboxRow.attempt == attempt,
            )
        )
