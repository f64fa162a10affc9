"""Carries out the effects in one lane of the outbox.

A run forgets what is done and begins what may begin; it waits for nothing that it began, so one
effect that takes long delays only its own job. `core.life.lanes` says what may begin.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import get_args

import structlog

from jobmanager.core.errors import StorageBusy
from jobmanager.core.ids import JobId
from jobmanager.core.life import lanes
from jobmanager.core.life.effects import ForJobManager, LaunchAttempt
from jobmanager.core.life.lanes import OutboxLane
from jobmanager.core.life.records import HistoryEntry
from jobmanager.services import runners
from jobmanager.services.clock import Clock
from jobmanager.services.dispatch import Dispatcher, EffectMustWait, LaunchMustWait
from jobmanager.services.ports.outbox import OutboxEntry
from jobmanager.services.ports.unit_of_work import UnitsOfWork

_log = structlog.get_logger(__name__)
_LAUNCH_TRIES = 3
_AT_ONCE = 100
"""Effects that are looked at in one run."""
_LOOK_AGAIN = timedelta(seconds=0.5)
_FOR_US = get_args(ForJobManager)


@dataclass(slots=True)
class _Chain:
    """The effects of one job that are carried out one after the other."""

    task: asyncio.Task[None] | None = None
    done: list[int] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        return self.task is not None and self.task.done()


class DispatchLoop:
    def __init__(
        self,
        units: UnitsOfWork,
        dispatcher: Dispatcher,
        clock: Clock,
        lane: OutboxLane,
        workers: int,
        wake: asyncio.Event,
    ) -> None:
        self._units = units
        self._dispatcher = dispatcher
        self._clock = clock
        self._lane = lane
        self._workers = workers
        self._wake = wake
        """Set when a worker is free again, so that the next run comes soon."""
        self._chains: dict[JobId, _Chain] = {}

    @property
    def under_way(self) -> Sequence[asyncio.Task[None]]:
        return [one.task for one in self._chains.values() if one.task and not one.is_over]

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way, and what was done is forgotten."""
        return not self._chains

    async def run_once(self) -> None:
        # Forgotten together: whoever is killed in between carries some of them out again. A job
        # stays busy until then, so that nothing of it is begun twice.
        over = [job_id for job_id, chain in self._chains.items() if chain.is_over]
        done = [entry for job_id in over for entry in self._chains[job_id].done]
        busy = self._chains.keys() - over
        free = self._workers - len(busy)
        found: Sequence[OutboxEntry] = ()
        async with self._units() as uow:
            if done:
                await uow.outbox.done(done)
            if free > 0:
                found = await uow.outbox.due(self._lane, self._clock(), busy, _AT_ONCE)
            if done:
                await uow.commit()
        for job_id in over:
            del self._chains[job_id]
        for entries in lanes.chains(found, free):
            self._begin(entries)

    def failed(self) -> None:
        """What is under way is remembered, and goes on."""

    async def end(self, within: timedelta) -> None:
        """Returns when nothing is under way. What cannot end in time is broken off."""
        if tasks := self.under_way:
            _, late = await asyncio.wait(tasks, timeout=within.total_seconds())
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, entries: Sequence[OutboxEntry]) -> None:
        chain = self._chains[entries[0].job_id] = _Chain()
        chain.task = asyncio.create_task(self._carry_out_all(entries, chain.done))
        chain.task.add_done_callback(lambda _: self._wake.set())

    async def _carry_out_all(self, entries: Sequence[OutboxEntry], done: list[int]) -> None:
        for entry in entries:
            try:
                is_done = await self._carry_out(entry)
            except Exception as error:  # Postgres is away: the rest is found again
                _log.warning("lane stopped", lane=self._lane, error=str(error))
                return
            if is_done:
                done.append(entry.id)
            elif self._lane.is_ordered:
                return

    async def _carry_out(self, entry: OutboxEntry) -> bool:
        """Carry out an effect; return whether it succeeded."""
        assert isinstance(entry.effect, _FOR_US)
        try:
            await self._dispatcher.carry_out(entry.job_id, entry.effect, self._clock())
        except EffectMustWait as wait:
            await self._wait(entry, wait)
            return False
        except StorageBusy as busy:
            _log.info("effect put back", job=entry.job_id.hex, effect=str(entry.effect))
            await self._postpone(entry, str(busy))
            return False
        except Exception as error:
            return await self._fail(entry, f"{type(error).__name__}: {error}")
        return True

    async def _wait(self, entry: OutboxEntry, wait: EffectMustWait) -> None:
        now, until = self._clock(), wait.until
        async with self._units() as uow:
            if isinstance(wait, LaunchMustWait):  # the runner may be seen to end at any moment
                until = min(until, now + _LOOK_AGAIN)
            await uow.outbox.postpone(entry.id, until, str(wait), is_failure=False)
            if isinstance(wait, LaunchMustWait) and entry.last_error != str(wait):
                note = HistoryEntry(now, "launch_waits", str(wait), wait.attempt)
                await uow.history.add(entry.job_id, note)
            await uow.commit()

    async def _fail(self, entry: OutboxEntry, error: str) -> bool:
        """Whether it is given up."""
        _log.warning("effect failed", job=entry.job_id.hex, effect=str(entry.effect), error=error)
        effect = entry.effect
        if isinstance(effect, LaunchAttempt) and entry.tries + 1 >= _LAUNCH_TRIES:
            now = self._clock()
            await runners.launch_failed(self._units(), entry.job_id, effect.attempt, error, now)
            return True
        await self._postpone(entry, error)
        return False

    async def _postpone(self, entry: OutboxEntry, error: str) -> None:
        until = self._clock() + lanes.try_again_after(entry.tries)
        async with self._units() as uow:
            await uow.outbox.postpone(entry.id, until, error)
            await uow.commit()
