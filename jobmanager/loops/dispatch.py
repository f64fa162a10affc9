"""Carries out the effects in the outbox."""

from datetime import timedelta
from typing import get_args

import structlog

from jobmanager.core.life.effects import ForJobManager, LaunchAttempt
from jobmanager.core.life.records import HistoryEntry
from jobmanager.services import runners
from jobmanager.services.clock import Clock
from jobmanager.services.dispatch import Dispatcher, EffectMustWait, LaunchMustWait
from jobmanager.services.ports.outbox import OutboxEntry
from jobmanager.services.ports.unit_of_work import UnitsOfWork

_log = structlog.get_logger(__name__)
_LAUNCH_TRIES = 3
_LOOK_AGAIN = timedelta(seconds=0.5)
_FOR_US = get_args(ForJobManager)


class DispatchLoop:
    def __init__(self, units: UnitsOfWork, dispatcher: Dispatcher, clock: Clock) -> None:
        self._units = units
        self._dispatcher = dispatcher
        self._clock = clock

    async def run_once(self) -> None:
        async with self._units() as uow:
            entries = await uow.outbox.due(self._clock(), limit=100)
        # Deleted together: after a crash in between, some effects are carried out again.
        done = [entry.id for entry in entries if await self._carry_out(entry)]
        if done:
            async with self._units() as uow:
                await uow.outbox.done(done)
                await uow.commit()

    def failed(self) -> None:
        """Nothing to do: the loop keeps nothing between two runs."""

    async def _carry_out(self, entry: OutboxEntry) -> bool:
        """Carry out an effect; return whether it succeeded."""
        assert isinstance(entry.effect, _FOR_US)
        try:
            await self._dispatcher.carry_out(entry.job_id, entry.effect, self._clock())
        except EffectMustWait as wait:
            await self._wait(entry, wait)
            return False
        except Exception as error:
            await self._fail(entry, f"{type(error).__name__}: {error}")
            return False
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

    async def _fail(self, entry: OutboxEntry, error: str) -> None:
        now = self._clock()
        _log.warning("effect failed", job=entry.job_id.hex, effect=str(entry.effect), error=error)
        effect = entry.effect
        if isinstance(effect, LaunchAttempt) and entry.tries + 1 >= _LAUNCH_TRIES:
            await runners.launch_failed(self._units(), entry.job_id, effect.attempt, error, now)
            async with self._units() as uow:
                await uow.outbox.done([entry.id])
                await uow.commit()
            return
        delay = timedelta(seconds=min(2**entry.tries, 60))
        async with self._units() as uow:
            await uow.outbox.postpone(entry.id, now + delay, error)
            await uow.commit()
