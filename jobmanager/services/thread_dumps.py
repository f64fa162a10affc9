"""Asks runners what their threads do.

A runner makes all calls. So the question waits here, in the memory of the leader, until the
runner's next heartbeat; the answer to that heartbeat carries the question, and the heartbeat after
it, which the runner sends at once, the answer. A question that is not answered in time is
forgotten, also when another server leads meanwhile.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from jobmanager.core.errors import RunnerNotAnswering
from jobmanager.core.ids import RunnerId
from jobmanager.protocol.messages import RunnerThread

_Answer = asyncio.Future[Sequence[RunnerThread]]


class ThreadDumps:
    """The questions that wait for an answer. All who ask for one runner get the same answer."""

    def __init__(self, within: timedelta = timedelta(seconds=20)) -> None:
        self._within = within
        self._waiting: dict[RunnerId, set[_Answer]] = {}

    def is_wanted(self, runner: RunnerId) -> bool:
        return runner in self._waiting

    async def ask(self, runner: RunnerId) -> Sequence[RunnerThread]:
        """Return the threads of a runner. Raises `RunnerNotAnswering`."""
        answer: _Answer = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(runner, set()).add(answer)
        try:
            async with asyncio.timeout(self._within.total_seconds()):
                return await answer
        except TimeoutError:
            raise RunnerNotAnswering(
                f"runner {runner.hex} has not told its threads within "
                f"{self._within.total_seconds():.0f} s: look at its heartbeats and its log"
            ) from None
        finally:
            self._forget(runner, answer)

    def answered(self, runner: RunnerId, threads: Sequence[RunnerThread]) -> None:
        """Give an answer to all who wait; an answer that nobody waits for is dropped."""
        for answer in self._waiting.pop(runner, set()):
            if not answer.done():
                answer.set_result(threads)

    def _forget(self, runner: RunnerId, answer: _Answer) -> None:
        others = self._waiting.get(runner)
        if others is not None:
            others.discard(answer)
            if not others:
                del self._waiting[runner]
