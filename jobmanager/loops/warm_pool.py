"""Keeps warm runner processes ready for future jobs.

To start and prime a process takes several seconds of two cores, which the jobs of the machine have
to do without. So no process is started just after another was taken, while the new job starts; and
while the machine is busy a start waits: as long as a process that served a job waits for the next
one, else for a minute at most, since a job whose runner fails needs a process soon.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

from jobmanager.services.clock import Clock

PAUSE = timedelta(seconds=10)
"""Pause after a warm process was taken, so that the new job starts first."""
LONGEST_WAIT = timedelta(seconds=60)
"""How long a start waits on a busy machine if no process waits for a job at all."""


class ProcessPool(Protocol):
    def warm(self) -> int: ...
    def has_returned(self) -> bool:
        """Whether a process that served a job waits for the next one, or will soon."""

    async def keep_warm(self, wanted: int) -> None: ...


class WarmPool:
    def __init__(
        self,
        pool: ProcessPool,
        wanted: int,
        clock: Clock,
        is_busy: Callable[[], bool] = lambda: False,
    ) -> None:
        self._pool = pool
        self._wanted = wanted
        self._clock = clock
        self._is_busy = is_busy
        """Whether jobs need all the CPU time of this machine; asked once in each run."""
        self._had = 0
        self._refill_at = clock()

    async def run_once(self) -> None:
        now = self._clock()
        is_busy = self._is_busy()
        if self._pool.warm() < self._had:
            self._refill_at = now + PAUSE
        if now >= self._refill_at and not (is_busy and self._can_wait()):
            await self._pool.keep_warm(self._wanted)
        self._had = self._pool.warm()

    def failed(self) -> None:
        """Wait before the next try: a process that cannot be started now may start later."""
        self._refill_at = self._clock() + PAUSE

    def _can_wait(self) -> bool:
        if self._pool.warm() >= self._wanted:
            return False  # nothing is to be started
        return self._pool.has_returned() or self._clock() < self._refill_at + LONGEST_WAIT
