"""Wake-ups tell code that waits for news of a job, in this process, to look again.

A wake-up only saves waiting. If it is lost, the news is found in Postgres at the next look, so
nothing but time is lost.
"""

import asyncio
from collections.abc import Iterable

from jobmanager.core.ids import JobId


class Wakeups:
    def __init__(self) -> None:
        self._waiting: dict[JobId, set[asyncio.Event]] = {}
        self.outbox = asyncio.Event()
        """Set when there may be effects for the JobManager."""

    def wake(self, jobs: Iterable[JobId]) -> None:
        self.outbox.set()
        for job_id in jobs:
            for event in self._waiting.get(job_id, ()):
                event.set()

    def wake_all(self) -> None:
        self.wake(list(self._waiting))

    def listen(self, job_id: JobId) -> "WakeupListener":
        return WakeupListener(self._waiting, job_id)


class WakeupListener:
    """A context in which no wake-up is missed, from entering it on."""

    def __init__(self, waiting: dict[JobId, set[asyncio.Event]], job_id: JobId) -> None:
        self._waiting = waiting
        self._job_id = job_id
        self._event = asyncio.Event()

    def __enter__(self) -> "WakeupListener":
        self._waiting.setdefault(self._job_id, set()).add(self._event)
        return self

    def __exit__(self, *exc_info: object) -> None:
        events = self._waiting[self._job_id]
        events.discard(self._event)
        if not events:
            del self._waiting[self._job_id]

    async def wait(self, seconds: float) -> bool:
        """Wait, and return whether a wake-up came within `seconds`."""
        try:
            await asyncio.wait_for(self._event.wait(), seconds)
        except TimeoutError:
            return False
        self._event.clear()
        return True
