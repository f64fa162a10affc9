"""Checks the health of running jobs: progress, heartbeats, checkpoints."""

from datetime import timedelta

from jobmanager.core.life.health import HealthLimits
from jobmanager.services import health
from jobmanager.services.clock import Clock
from jobmanager.services.ports.unit_of_work import UnitsOfWork


class Watchdog:
    def __init__(
        self,
        units: UnitsOfWork,
        clock: Clock,
        heartbeat_timeout: timedelta,
        stall_after: timedelta,
    ) -> None:
        self._units = units
        self._clock = clock
        # late is before lost
        self._limits = HealthLimits(stall_after, heartbeat_late_after=heartbeat_timeout / 3)
        self._listening_since = clock()

    async def run_once(self) -> None:
        """Examine all jobs with one query; lock only jobs whose health has changed."""
        now, since = self._clock(), self._listening_since
        async with self._units() as uow:
            running = await uow.jobs.running()
        for one in running:
            if health.is_news(one, health.examination(one, self._limits, since, now)):
                await health.note(self._units(), one.stored.id, self._limits, since, now)

    def failed(self) -> None:
        """Restart the measuring of silence: heartbeats could not be received during the failure."""
        self._listening_since = self._clock()
