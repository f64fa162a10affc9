"""Keeps warm runner processes ready for future jobs."""

from datetime import timedelta
from typing import Protocol

from jobmanager.services.clock import Clock

PAUSE = timedelta(seconds=10)
"""Pause after a warm process was taken, so that the new job starts first."""


class ProcessPool(Protocol):
    def warm(self) -> int: ...
    async def keep_warm(self, wanted: int) -> None: ...


class WarmPool:
    def __init__(self, pool: ProcessPool, wanted: int, clock: Clock) -> None:
        self._pool = pool
        self._wanted = wanted
        self._clock = clock
        self._had = 0
        self._refill_at = clock()

    async def run_once(self) -> None:
        now = self._clock()
        if self._pool.warm() < self._had:
            self._refill_at = now + PAUSE
        if now >= self._refill_at:
            await self._pool.keep_warm(self._wanted)
        self._had = self._pool.warm()

    def failed(self) -> None:
        """Wait before the next try: a process that cannot be started now may start later."""
        self._refill_at = self._clock() + PAUSE
