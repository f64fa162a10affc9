"""Questions to runners that wait for a heartbeat."""

import asyncio
from datetime import timedelta
from uuid import uuid4

import pytest

from jobmanager.core.errors import RunnerNotAnswering
from jobmanager.core.ids import RunnerId
from jobmanager.protocol.messages import RunnerThread
from jobmanager.services.thread_dumps import ThreadDumps

pytestmark = pytest.mark.anyio
MAIN = [RunnerThread(name="python: MainThread", text="in main.py")]


async def test_all_who_ask_get_the_answer_of_one_heartbeat() -> None:
    dumps, runner = ThreadDumps(), RunnerId(uuid4())
    asked = [asyncio.create_task(dumps.ask(runner)) for _ in range(2)]
    await asyncio.sleep(0)

    assert dumps.is_wanted(runner)
    assert not dumps.is_wanted(RunnerId(uuid4()))
    dumps.answered(runner, MAIN)

    assert not dumps.is_wanted(runner)
    assert [await one for one in asked] == [MAIN, MAIN]


async def test_a_question_that_is_not_answered_in_time_is_forgotten() -> None:
    dumps, runner = ThreadDumps(timedelta(milliseconds=10)), RunnerId(uuid4())

    with pytest.raises(RunnerNotAnswering, match="look at its heartbeats"):
        await dumps.ask(runner)

    assert not dumps.is_wanted(runner)
    dumps.answered(runner, MAIN)  # too late: nobody waits


async def test_who_goes_away_does_not_take_the_answer_from_others() -> None:
    dumps, runner = ThreadDumps(), RunnerId(uuid4())
    first, second = (asyncio.create_task(dumps.ask(runner)) for _ in range(2))
    await asyncio.sleep(0)

    first.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert dumps.is_wanted(runner)
    dumps.answered(runner, MAIN)

    assert await second == MAIN
