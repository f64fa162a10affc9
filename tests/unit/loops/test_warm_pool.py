import asyncio

from jobmanager.loops.warm_pool import PAUSE, WarmPool
from tests.support.cluster import Clock


class Processes:
    """As many as it was told to keep, until one is taken."""

    def __init__(self) -> None:
        self.waiting = 0

    def warm(self) -> int:
        return self.waiting

    async def keep_warm(self, wanted: int) -> None:
        self.waiting += (wanted > self.waiting) - (wanted < self.waiting)


def test_processes_are_started_one_a_round() -> None:
    processes, clock = Processes(), Clock()
    pool = WarmPool(processes, 2, clock)

    seen = []
    for _ in range(3):
        asyncio.run(pool.run_once())
        seen.append(processes.waiting)

    assert seen == [1, 2, 2]


def test_the_job_that_took_one_goes_first() -> None:
    processes, clock = Processes(), Clock()
    pool = WarmPool(processes, 1, clock)
    asyncio.run(pool.run_once())
    processes.waiting = 0

    asyncio.run(pool.run_once())
    at_once = processes.waiting
    clock.pass_time(PAUSE.total_seconds())
    asyncio.run(pool.run_once())

    assert (at_once, processes.waiting) == (0, 1)
