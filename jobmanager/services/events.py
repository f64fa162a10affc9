"""Passes history entries and live events on to listeners as they happen.

A server has one hub. It reads each new entry once, however many listeners there are, and passes it
on through bounded queues: a listener that does not keep up is disconnected, and can come back with
the id of its last entry. Waiting holds no transaction and no connection.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

import structlog

from jobmanager.core.errors import TooManyStreams
from jobmanager.core.ids import JobId
from jobmanager.core.progress import largest_lag_ms
from jobmanager.protocol.progress_json import progress_to_json
from jobmanager.services.ports.history import LiveProgress, Recorded
from jobmanager.services.ports.unit_of_work import UnitsOfWork

_log = structlog.get_logger(__name__)
PROGRESS, PROGRESS_SUMMARY = "progress", "progress_summary"
HISTORY_CHANNEL = "headgate_history"
"""There are new entries; the payload is empty."""
LIVE_CHANNEL = "headgate_live"
"""The payload is an event that is not stored."""
MOST_STREAMS = 256
MOST_WAITING = 1_000
"""How many events a listener may be behind."""
_PAGE = 500
_PROGRESS_EVERY_SECONDS = 0.9


class ProgressDetail(StrEnum):
    """How much of the jobs' progress a listener wants."""

    EACH = "each"
    """An event for each job, with all its regions."""
    SUMMARY = "summary"
    """One event for all jobs, with a line for each job."""
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Event:
    kind: str
    job_id: JobId | None
    """None: the event is about several jobs."""
    data: Mapping[str, Any]
    id: int | None = None
    """Id of the history entry; None: the event is not stored, and is never sent again."""


class Subscription:
    """A listener to all jobs, or to one job. `close` it."""

    def __init__(self, hub: "EventHub", job_id: JobId | None, progress: ProgressDetail) -> None:
        self._hub = hub
        self.job_id = job_id
        self.progress = progress
        self._events: asyncio.Queue[Event | None] = asyncio.Queue(MOST_WAITING + 1)
        self.is_open = True

    def offer(self, event: Event) -> None:
        if self._wants(event):
            if self._events.qsize() >= MOST_WAITING:
                self.close()
            else:
                self._events.put_nowait(event)

    def _wants(self, event: Event) -> bool:
        if event.kind == PROGRESS_SUMMARY:
            return self.progress is ProgressDetail.SUMMARY
        if event.kind == PROGRESS and self.progress is not ProgressDetail.EACH:
            return False
        return self.job_id in (None, event.job_id)

    def close(self) -> None:
        """End the subscription, also for a caller that waits for the next event."""
        if self.is_open:
            self.is_open = False
            self._hub.forget(self)
            self._events.put_nowait(None)

    async def follow(self, after: int | None, beat_every: float) -> AsyncIterator[Event | None]:
        """Yield stored entries after entry `after`, then every new event; yield None after
        `beat_every` seconds without an event. Ends when the subscription is closed.
        """
        sent = await self._hub.join() if after is None else after
        async for event in self._hub.kept(sent, self.job_id):
            yield event
            sent = event.id or sent
        while self.is_open:
            try:
                next_one = await asyncio.wait_for(self._events.get(), beat_every)
            except TimeoutError:
                yield None
                continue
            if next_one is not None and (next_one.id is None or next_one.id > sent):
                yield next_one


class EventHub:
    """Reads new entries and passes them on, as a background loop: see `run_once`."""

    def __init__(self, units: UnitsOfWork, most_streams: int = MOST_STREAMS) -> None:
        self._units = units
        self._most_streams = most_streams
        self._listeners: set[Subscription] = set()
        self._read_up_to: int | None = None
        """None: there are no listeners, and nothing is read."""
        self._progress_at: dict[JobId, datetime] = {}
        self.wake = asyncio.Event()
        """Set when there may be new entries."""

    @property
    def streams(self) -> int:
        return len(self._listeners)

    def subscribe(
        self, job_id: JobId | None, progress: ProgressDetail = ProgressDetail.EACH
    ) -> Subscription:
        """Add a listener. It gets every event from now on."""
        if len(self._listeners) >= self._most_streams:
            raise TooManyStreams(f"{self._most_streams} event streams are open: try again later")
        subscription = Subscription(self, job_id, progress)
        self._listeners.add(subscription)
        return subscription

    def forget(self, subscription: Subscription) -> None:
        self._listeners.discard(subscription)

    def close(self) -> None:
        for one in list(self._listeners):
            one.close()

    async def join(self) -> int:
        """Return the entry after which the hub reads on; it is set before stored entries are
        read.
        """
        if self._read_up_to is None:
            async with self._units() as uow:
                newest = await uow.history.newest()
            if self._read_up_to is None:
                self._read_up_to = newest
        return self._read_up_to

    async def kept(self, after: int, job_id: JobId | None) -> AsyncIterator[Event]:
        """Yield stored entries after an entry, page by page.

        The hub reads on from an entry that is no newer than the last of these, so no entry is
        missed between the two; an entry that comes twice is recognised by its id.
        """
        await self.join()
        while True:
            async with self._units() as uow:
                page = await uow.history.after(after, _PAGE, job_id)
            for one in page:
                yield _of_history(one)
            if len(page) < _PAGE:
                return
            after = page[-1].id

    async def run_once(self) -> None:
        if not self._listeners:
            self._read_up_to = None
            self._progress_at.clear()
            return
        await self._pass_on_history()
        await self._pass_on_progress()

    def failed(self) -> None:
        """Handle a failed turn: the next turn continues at the same entry."""

    def hear(self, channel: str, payload: str) -> None:
        """Receive a notification that a transaction on any server sent when it was committed."""
        if channel == HISTORY_CHANNEL:
            self.wake.set()
            return
        try:
            told = json.loads(payload)
            event = Event(told.pop("kind"), JobId(UUID(hex=told["job"])), told)
        except (ValueError, KeyError, TypeError) as error:  # anyone may NOTIFY
            _log.warning("event not understood", payload=payload[:200], error=str(error))
            return
        self._offer(event)

    async def _pass_on_history(self) -> None:
        read = await self.join()
        while True:
            async with self._units() as uow:
                page = await uow.history.after(read, _PAGE)
            for one in page:
                self._offer(_of_history(one))
                read = self._read_up_to = one.id
            if len(page) < _PAGE:
                return

    async def _pass_on_progress(self) -> None:
        """Send an event for each job whose runner has reported since the last turn."""
        async with self._units() as uow:
            found = await uow.history.progress()
        news = []
        for one in found:
            before = self._progress_at.get(one.job_id)
            if before is None or (one.at - before).total_seconds() >= _PROGRESS_EVERY_SECONDS:
                self._progress_at[one.job_id] = one.at
                news.append(one)
        for one in news:
            self._offer(_of_progress(one))
        if news:
            self._offer(_summary_of(news))

    def _offer(self, event: Event) -> None:
        for one in list(self._listeners):
            one.offer(event)


def _of_history(one: Recorded) -> Event:
    data = {
        **item(one),
        "job": one.job_id.hex,
        "name": one.job_name,
        "state": one.job_state,
    }
    return Event(one.entry.kind, one.job_id, data, one.id)


def item(one: Recorded) -> dict[str, Any]:
    """Return a history entry as the API shows it."""
    entry = one.entry
    return {
        "id": one.id,
        "at": entry.at.isoformat(),
        "kind": entry.kind,
        "cause": entry.cause,
        "actor": one.actor,
        "actor_name": one.actor_name,
        "attempt": entry.attempt,
        "checkpoint": entry.checkpoint,
        "detail": dict(entry.detail),
    }


def _of_progress(one: LiveProgress) -> Event:
    data = {
        "job": one.job_id.hex,
        "name": one.job_name,
        "state": one.job_state,
        "attempt": one.attempt,
        "at": one.at.isoformat(),
        "regions": progress_to_json(one.regions),
    }
    return Event(PROGRESS, one.job_id, data)


def _summary_of(found: Sequence[LiveProgress]) -> Event:
    return Event(PROGRESS_SUMMARY, None, {"jobs": [_line_of(one) for one in found]})


def _line_of(one: LiveProgress) -> dict[str, Any]:
    return {
        "job": one.job_id.hex,
        "state": one.job_state,
        "attempt": one.attempt,
        "at": one.at.isoformat(),
        "input_rows": sum(region.input_rows for region in one.regions),
        "output_rows": sum(region.output_rows for region in one.regions),
        "is_idle": all(region.is_idle for region in one.regions),
        "lag": largest_lag_ms(one.regions),
    }
