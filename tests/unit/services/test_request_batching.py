"""Requests that come at the same time, answered together."""

import asyncio
from collections.abc import Sequence

import pytest

from jobmanager.services.request_batching import PendingRequest, RequestBatcher

pytestmark = pytest.mark.anyio


class Doubling:
    """Doubles what it is asked; remembers the rounds."""

    def __init__(self) -> None:
        self.rounds: list[list[int]] = []
        self.batcher: RequestBatcher[int, int] = RequestBatcher(self._serve, 0.01)

    async def _serve(self, batch: Sequence[PendingRequest[int, int]]) -> None:
        self.rounds.append([one.asked for one in batch])
        await asyncio.sleep(0.02)
        for one in batch:
            if one.asked == 13:
                raise ValueError("thirteen")
            if one.asked == 7:
                one.refuse(KeyError("seven"))
            elif one.asked != 99:
                one.resolve(2 * one.asked)


async def test_what_comes_at_the_same_time_is_one_round_and_what_comes_meanwhile_the_next() -> None:
    doubling = Doubling()
    first = [asyncio.create_task(doubling.batcher.ask(n)) for n in (1, 2, 3)]
    await asyncio.sleep(0.02)
    later = [asyncio.create_task(doubling.batcher.ask(n)) for n in (4, 5)]

    assert await asyncio.gather(*first, *later) == [2, 4, 6, 8, 10]
    assert doubling.rounds == [[1, 2, 3], [4, 5]]


async def test_one_that_is_refused_does_not_spoil_the_others() -> None:
    doubling = Doubling()
    answers = await asyncio.gather(
        *(doubling.batcher.ask(n) for n in (7, 1)), return_exceptions=True
    )
    assert isinstance(answers[0], KeyError)
    assert answers[1] == 2


async def test_an_error_of_the_round_is_the_answer_to_all_who_have_none_and_the_next_goes_on() -> (
    None
):
    doubling = Doubling()
    answers = await asyncio.gather(
        *(doubling.batcher.ask(n) for n in (1, 13, 2)), return_exceptions=True
    )
    assert [type(one) for one in answers] == [int, ValueError, ValueError]
    assert await doubling.batcher.ask(4) == 8


async def test_nobody_waits_for_ever() -> None:
    doubling = Doubling()
    with pytest.raises(AssertionError, match="without an answer"):
        await doubling.batcher.ask(99)


async def test_who_has_gone_away_is_not_served() -> None:
    doubling = Doubling()
    gone = asyncio.create_task(doubling.batcher.ask(1))
    await asyncio.sleep(0)
    gone.cancel()
    assert await doubling.batcher.ask(2) == 4
    assert doubling.rounds == [[2]]
