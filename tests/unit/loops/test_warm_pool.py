import asyncio
from datetime import timedelta

import pytest

from jobmanager.loops.warm_pool import LONGEST_WAIT, PAUSE, WarmPool
from tests.support.cluster import Clock


class Processes:
    """As many as it was told to keep, until one is taken."""

    def __init__(self, waiting: int = 0, returned: int = 0) -> None:
        self.waiting = waiting
        self.returned = returned

    def warm(self) -> int:
        return self.waiting

    def has_returned(self) -> bool:
        return self.returned > 0

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


@pytest.mark.parametrize(
    ("is_busy", "returned", "after", "started"),
    [
        (True, 0, PAUSE, False),
        (True, 0, LONGEST_WAIT, True),
        (True, 1, 10 * LONGEST_WAIT, False),
        (False, 1, PAUSE, True),
    ],
)
def test_a_busy_machine_starts_none_while_another_will_do(
    is_busy: bool, returned: int, after: timedelta, started: bool
) -> None:
    processes, clock = Processes(returned, returned), Clock()
    pool = WarmPool(processes, 2, clock, lambda: is_busy)

    clock.pass_time(after.total_seconds())
    asyncio.run(pool.run_once())

    assert (processes.waiting > returned) is started


def test_a_busy_machine_ends_those_that_are_too_many() -> None:
    processes = Processes(2, 2)

    asyncio.run(WarmPool(processes, 1, Clock(), lambda: True).run_once())

    assert processes.waiting == 1
