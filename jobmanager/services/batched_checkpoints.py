"""Triggers checkpoints of many jobs, and takes acks of many runners, in one transaction.

The lives of all these jobs are loaded by one query, stepped one after the other, and saved
together. A job that another transaction has locked is skipped: its periodic checkpoint is looked
at again soon, and its ack is taken in a transaction of its own (`services.checkpoints`).
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from jobmanager.core.errors import DomainError
from jobmanager.core.ids import CheckpointNumber, JobId, RunnerId
from jobmanager.core.life.checkpoint import BarrierAcked
from jobmanager.core.life.events import CheckpointDue, CheckpointNews
from jobmanager.core.life.life import Life, step
from jobmanager.services import lives
from jobmanager.services.checkpoints import Acknowledged, acknowledged
from jobmanager.services.lives import Happened
from jobmanager.services.ports.history import Actor
from jobmanager.services.ports.runners import RunnerAtWork
from jobmanager.services.ports.unit_of_work import UnitOfWork, UnitsOfWork
from jobmanager.services.request_batching import PendingRequest, RequestBatcher
from jobmanager.services.runner_tokens import Credentials, check_attempt_token, check_secret

_MOST_AT_ONCE = 200
_GATHER_SECONDS = 0.02
_ONE_BY_ONE = 8


async def trigger_due(uow: UnitOfWork, now: datetime) -> None:
    """Trigger the periodic checkpoints that are due."""
    due = CheckpointDue(now)
    async with uow:
        found = await uow.lives.load_due(now, _MOST_AT_ONCE)
        happened = [Happened(life, step(life, due), now) for life in found]
        if not all(one.is_nothing for one in happened):
            await lives.save(uow, *happened)
            await uow.commit()


@dataclass(frozen=True, slots=True)
class Ack:
    shown: Credentials
    job_id: JobId
    checkpoint: CheckpointNumber
    event: BarrierAcked

    @property
    def runner(self) -> RunnerId:
        return self.shown.runner

    @property
    def news(self) -> CheckpointNews:
        return CheckpointNews(self.checkpoint, self.event)


_Waiting = PendingRequest[Ack, Acknowledged | None]


class Acks:
    """Takes acks that arrive at the same time in one transaction."""

    def __init__(self, units: UnitsOfWork) -> None:
        self._units = units
        self._batcher: RequestBatcher[Ack, Acknowledged | None] = RequestBatcher(
            self._take, _GATHER_SECONDS
        )
        self.one_by_one = asyncio.Semaphore(_ONE_BY_ONE)
        """Limits how many acks are taken singly: each of them uses a connection of its own."""

    async def note(self, ack: Ack) -> Acknowledged | None:
        """Take an ack with others. None: nothing was written, and the ack has to be taken
        singly.
        """
        return await self._batcher.ask(ack)

    async def _take(self, batch: Sequence[_Waiting]) -> None:
        async with self._units(Actor.RUNNER) as uow:
            known = await uow.runners.at_work([one.asked.runner for one in batch])
            firsts = {one.asked.job_id: one for one in reversed(batch) if _is_known(one, known)}
            asked = {job_id: one.asked for job_id, one in firsts.items()}
            found = await uow.lives.load_free(
                {job_id: lives.spoken_of(ack.news) for job_id, ack in asked.items()}
            )
            taken = {
                job_id: happened
                for job_id, life in found.items()
                if (happened := _take_ack(life, asked[job_id])) is not None
            }
            if taken:
                # The reply tells the runner the outcome; its directives can wait for its next poll.
                await lives.save(uow, *taken.values(), wakes_runners=False)
                await uow.commit()
        for job_id, happened in taken.items():
            firsts[job_id].resolve(acknowledged(happened, asked[job_id].checkpoint))
        for one in batch:
            if one.is_open:
                one.resolve(None)


def _is_known(one: _Waiting, known: Mapping[RunnerId, RunnerAtWork]) -> bool:
    """Whether the ack comes from the runner of that attempt. Any other sender gets its error when
    the ack is taken singly.
    """
    ack, found = one.asked, known.get(one.asked.runner)
    if found is None:
        return False
    if (found.runner.job_id, found.runner.attempt) != (ack.job_id, ack.event.attempt):
        return False
    try:
        check_secret(ack.shown, found.runner.token_hash)
        check_attempt_token(ack.shown, ack.event.attempt, found.attempt_token_hash)
    except DomainError:
        return False
    return True


def _take_ack(life: Life, ack: Ack) -> Happened | None:
    """Step the life with the ack. None: the ack is refused, and its runner gets the error when the
    ack is taken singly.
    """
    try:
        return Happened(life, step(life, ack.news), ack.event.at)
    except DomainError:
        return None
