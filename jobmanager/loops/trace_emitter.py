"""Makes spans of what has ended, and has them exported: a trace for each checkpoint, operation and
attempt.

The database is the queue: nothing is kept in memory that is not there, and no other part of the
server waits for a collector. What ended is found by the time of its end. A transaction may become
visible a little after that time, so each run looks back a few seconds, and leaves out what it has
sent. How far it has come is stored after an export. The next leader sends the last few seconds
again, and makes the same spans with the same ids. While the collector is away its traces wait;
those older than ten minutes are dropped.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice

import structlog

from jobmanager.core.signals.traces import (
    FinishedSpan,
    spans_of_attempt,
    spans_of_checkpoint,
    spans_of_operation,
)
from jobmanager.services.clock import Clock
from jobmanager.services.ports.signals import EndedWork, SignalCursor, SpanExporter, WorkKey
from jobmanager.services.ports.unit_of_work import UnitsOfWork

_log = structlog.get_logger(__name__)
EVERY_SECONDS = 5.0
CURSOR = "traces"
LOOKS_BACK = timedelta(seconds=15)
KEEPS_FOR = timedelta(minutes=10)
_MOST = 200
"""Checkpoints, operations and attempts of each kind in one run."""
_ROUNDS = 50
_SPANS_AT_ONCE = 2_000
_LONGEST_PAUSE = timedelta(minutes=1)
_WRITES_AFTER = timedelta(minutes=5)
"""How often it is written down that nothing has ended."""


class TraceEmitter:
    def __init__(self, units: UnitsOfWork, exporter: SpanExporter, clock: Clock) -> None:
        self._units = units
        self._exporter = exporter
        self._clock = clock
        self._sent: dict[WorkKey, datetime] = {}
        """What was sent, with its end, as long as runs look back to it."""
        self._failures = 0
        self._try_at: datetime | None = None

    async def run_once(self) -> None:
        """Export until nothing is left, or for a while: the next run goes on."""
        for _ in range(_ROUNDS):
            if not await self._emit():
                return

    def failed(self) -> None:
        """What was sent is still known."""

    async def _emit(self) -> bool:
        """Export a few; return whether there may be more."""
        now = self._clock()
        if self._try_at is not None and now < self._try_at:
            return False
        async with self._units() as uow:
            cursor = await uow.signal_cursors.get(CURSOR)
            if cursor is None or cursor.at is None:  # what ended before is not told of
                await uow.signal_cursors.put(CURSOR, SignalCursor(at=now))
                await uow.commit()
                return False
            since = self._since(cursor.at, now)
            found = await uow.signal_cursors.ended_after(since, self._sent.keys(), _MOST)
        if found.up_to is None:
            await self._catch_up(cursor.at, now)
            return False
        if not await self._export(found):
            self._failures += 1
            pause = min(timedelta(seconds=5) * (1 << min(self._failures, 10)), _LONGEST_PAUSE)
            self._try_at = now + pause
            return False
        self._failures, self._try_at = 0, None
        reached = max(cursor.at, found.up_to)
        self._sent |= found.keys
        horizon = reached - LOOKS_BACK
        self._sent = {key: at for key, at in self._sent.items() if at > horizon}
        async with self._units() as uow:
            await uow.signal_cursors.put(CURSOR, SignalCursor(at=reached))
            await uow.commit()
        return True

    async def _catch_up(self, reached: datetime, now: datetime) -> None:
        """Nothing has ended for a while: the next leader need not look back so far."""
        if now - reached > _WRITES_AFTER:
            async with self._units() as uow:
                await uow.signal_cursors.put(CURSOR, SignalCursor(at=now - LOOKS_BACK))
                await uow.commit()

    def _since(self, reached: datetime, now: datetime) -> datetime:
        oldest = now - KEEPS_FOR
        if reached < oldest and self._failures:
            _log.warning("traces dropped", ended_before=oldest.isoformat())
        return max(reached - LOOKS_BACK, oldest)

    async def _export(self, found: EndedWork) -> bool:
        spans = _spans_of(found)
        while batch := list(islice(spans, _SPANS_AT_ONCE)):
            if not await self._exporter.export(batch):
                return False
        return True


def _spans_of(found: EndedWork) -> Iterator[FinishedSpan]:
    for checkpoint in found.checkpoints:
        yield from spans_of_checkpoint(checkpoint, found.names.get(checkpoint.job_id, ""))
    for operation in found.operations:
        yield from spans_of_operation(operation, found.names.get(operation.job_id, ""))
    for attempt in found.attempts:
        yield from spans_of_attempt(attempt, found.names.get(attempt.job_id, ""))
