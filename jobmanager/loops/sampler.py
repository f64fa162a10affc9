"""Stores a sample of what every running job did since the last run, and sums up old samples."""

from datetime import datetime, timedelta

from jobmanager.core import sample
from jobmanager.core.ids import JobId
from jobmanager.core.sample import Reading, Sample
from jobmanager.services.clock import Clock
from jobmanager.services.ports.unit_of_work import UnitsOfWork

EVERY_SECONDS = 10.0
_KEPT = (
    (0, 60, timedelta(hours=2)),
    (60, 600, timedelta(days=2)),
)
"""Resolution of samples, the coarser resolution they are summed up to, and at which age."""
_COARSEST_S = 600
_KEEP = timedelta(days=30)


class Sampler:
    def __init__(self, units: UnitsOfWork, clock: Clock) -> None:
        self._units = units
        self._clock = clock
        self._read: dict[tuple[JobId, str], Reading] = {}

    async def run_once(self) -> None:
        async with self._units() as uow:
            found = {
                (one.job_id, region.region): sample.reading_of(region, one.attempt, one.at)
                for one in await uow.history.progress()
                for region in one.regions
            }
            taken: list[tuple[JobId, str, Sample]] = []
            for (job_id, region), now in found.items():
                before = self._read.get((job_id, region))
                made = sample.between(before, now) if before else None
                if made is not None:
                    taken.append((job_id, region, made))
            if taken:
                await uow.samples.add(taken)
                await uow.commit()
        self._read = found

    def failed(self) -> None:
        """Keep the last readings: the next sample covers the time since then."""


class SampleAging:
    """Sums up old samples, in a slow loop of its own."""

    def __init__(self, units: UnitsOfWork, clock: Clock) -> None:
        self._units = units
        self._clock = clock

    async def run_once(self) -> None:
        now = self._clock()
        for finer, coarser, age in _KEPT:
            async with self._units() as uow:
                if await uow.samples.sum_up(finer, coarser, _floor(now - age, coarser)):
                    await uow.commit()
        async with self._units() as uow:
            await uow.samples.prune(now - _KEEP, _COARSEST_S)
            await uow.commit()

    def failed(self) -> None:
        """Nothing to do: the loop keeps nothing between two runs."""


def _floor(moment: datetime, seconds: int) -> datetime:
    """Return the end of the last complete bin: a bin is summed up once."""
    whole = int(moment.timestamp()) // seconds * seconds
    return datetime.fromtimestamp(whole, moment.tzinfo)
