"""Writes down what every running job did since the last look, and sums up what is old."""

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
"""Samples of this resolution are summed up to that one when they are so old."""
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
        """What was read stays: the next sample spans the time since then."""


class SampleAging:
    """A loop of its own, and a slow one."""

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
        """Nothing is remembered between two runs."""


def _floor(moment: datetime, seconds: int) -> datetime:
    """The end of the last bin that is whole: a bin is summed up once."""
    whole = int(moment.timestamp()) // seconds * seconds
    return datetime.fromtimestamp(whole, moment.tzinfo)
