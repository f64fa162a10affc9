"""Makes OpenLineage events of new history entries, and every five minutes of each job that runs.

Events become deliveries, as messages to webhooks do: written in one transaction with how far the
history was read, sent in order, and tried again.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from jobmanager.core.errors import JobNotFound
from jobmanager.core.ids import JobId
from jobmanager.core.life.records import StoredJob
from jobmanager.core.signals.delivery import MOST_PENDING, OPENLINEAGE, Delivery
from jobmanager.core.signals.lineage import (
    EVENTS,
    LineageEventType,
    LineageProducer,
    LineageRun,
    RowCounts,
    key_of_entry,
    key_of_report,
    rows_of,
)
from jobmanager.loops.webhook_rules import TOO_MANY
from jobmanager.services.clock import Clock
from jobmanager.services.ports.history import Recorded
from jobmanager.services.ports.signals import SignalCursor
from jobmanager.services.ports.unit_of_work import UnitOfWork, UnitsOfWork

REPORTS_EVERY = timedelta(minutes=5)
_PAGE = 200


class LineageRules:
    def __init__(
        self, units: UnitsOfWork, producer: LineageProducer, data_root: str, clock: Clock
    ) -> None:
        self._units = units
        self._producer = producer
        self._data_root = data_root
        self._clock = clock

    async def run_once(self) -> None:
        while await self._tell_entries() == _PAGE:
            pass
        await self._tell_rows()

    def failed(self) -> None:
        """Nothing is remembered between two runs."""

    async def _tell_entries(self) -> int:
        """Make events of a page of entries; return how many entries there were."""
        now = self._clock()
        async with self._units() as uow:
            cursor = await uow.signal_cursors.get(OPENLINEAGE)
            if cursor is None or cursor.history_id is None:  # what was before is not told
                start = SignalCursor(await uow.history.newest(), now)
                await uow.signal_cursors.put(OPENLINEAGE, start)
                await uow.commit()
                return 0
            entries = await uow.history.after(cursor.history_id, _PAGE)
            if not entries:
                return 0
            made = [
                await self._of_entry(uow, one, EVENTS[one.entry.kind], now)
                for one in entries
                if one.entry.kind in EVENTS
            ]
            await self._add(uow, [one for one in made if one is not None], now)
            reached = SignalCursor(entries[-1].id, cursor.at)
            await uow.signal_cursors.put(OPENLINEAGE, reached)
            await uow.commit()
        return len(entries)

    async def _of_entry(
        self, uow: UnitOfWork, one: Recorded, kind: LineageEventType, now: datetime
    ) -> Delivery | None:
        rows = None
        try:
            job = await uow.jobs.get(one.job_id)
            if kind is not LineageEventType.START and one.entry.attempt is not None:
                attempt = await uow.attempts.get(one.job_id, one.entry.attempt)
                rows = rows_of(job.graph, attempt.progress) if attempt.progress else None
        except JobNotFound:  # it was pruned meanwhile
            return None
        error = one.entry.cause if kind is LineageEventType.FAIL else None
        body = self._event(kind, job, one.job_name, one.entry.at, rows, error)
        return _delivery(key_of_entry(one.id), kind, body, now, job.id, one.job_name, one.id)

    async def _tell_rows(self) -> None:
        """Make a RUNNING event of each job that runs, once in each span of five minutes."""
        now = self._clock()
        slot = int(now.timestamp() // REPORTS_EVERY.total_seconds())
        async with self._units() as uow:
            cursor = await uow.signal_cursors.get(OPENLINEAGE)
            if cursor is None or cursor.at is None or _slot(cursor.at) >= slot:
                return
            made = []
            for live in await uow.history.progress():
                job = await uow.jobs.get(live.job_id)
                rows = rows_of(job.graph, live.regions)
                kind = LineageEventType.RUNNING
                body = self._event(kind, job, live.job_name, live.at, rows, None)
                key = key_of_report(live.job_id, slot)
                made.append(_delivery(key, kind, body, now, live.job_id, live.job_name, None))
            await self._add(uow, made, now)
            await uow.signal_cursors.put(OPENLINEAGE, SignalCursor(cursor.history_id, now))
            await uow.commit()

    async def _add(self, uow: UnitOfWork, made: Sequence[Delivery], now: datetime) -> None:
        if made:
            await uow.deliveries.add(made)
            await uow.deliveries.give_up_oldest(OPENLINEAGE, MOST_PENDING, TOO_MANY, now)

    def _event(
        self,
        kind: LineageEventType,
        job: StoredJob,
        name: str,
        at: datetime,
        rows: RowCounts | None,
        error: str | None,
    ) -> str:
        run = LineageRun(job.id, name, job.graph, self._data_root)
        return self._producer.event(kind, run, at, rows, error)


def _slot(at: datetime) -> int:
    return int(at.timestamp() // REPORTS_EVERY.total_seconds())


def _delivery(
    key: UUID,
    kind: LineageEventType,
    body: str,
    now: datetime,
    job_id: JobId,
    job_name: str,
    history_id: int | None,
) -> Delivery:
    return Delivery(
        target=OPENLINEAGE,
        key=key,
        event=kind,
        body=body,
        created_at=now,
        due_at=now,
        job_id=job_id,
        job_name=job_name,
        history_id=history_id,
    )
