"""Checkpoints of many jobs in one transaction: those that are due, and those that complete.

These are the plain cases, nearly all there are with hundreds of jobs: a periodic checkpoint of
a job that nothing else happens to, acked as a whole in one message. Whatever is not plain is
left to `services.checkpoints`, which decides the same by the same rules, for one job.
"""

import asyncio
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from jobmanager.core.ids import CheckpointNumber, JobId, RunnerId
from jobmanager.core.life import checkpoint as checkpoints
from jobmanager.core.life.checkpoint import AckOutcome, BarrierAcked, CheckpointKind
from jobmanager.core.life.effects import DiscardAttempts, DiscardCheckpoint
from jobmanager.core.life.retention import superfluous
from jobmanager.core.plan import job_plan
from jobmanager.services.checkpoints import Acknowledged, facts
from jobmanager.services.ports.checkpoints import Completed, DueCheckpoint, Triggered, Unacked
from jobmanager.services.ports.history import Actor
from jobmanager.services.ports.unit_of_work import UnitOfWork, UnitsOfWork
from jobmanager.services.request_batching import PendingRequest, RequestBatcher

_MOST_AT_ONCE = 200
_GATHER_SECONDS = 0.02
_ONE_BY_ONE = 8


async def trigger_due(uow: UnitOfWork, now: datetime) -> Sequence[JobId]:
    """Triggers the periodic checkpoints that are due. The jobs that are not plain, and want to
    be looked at one by one.
    """
    async with uow:
        due = await uow.batched_checkpoints.due(now, _MOST_AT_ONCE)
        triggered = [_trigger(one, now) for one in due.plain]
        if triggered:
            await uow.batched_checkpoints.trigger(triggered)
            for one, made in zip(due.plain, triggered, strict=True):
                awaited = made.checkpoint.awaiting
                told = facts(one.graph.name, made.checkpoint, now, awaited)
                await uow.history.announce(one.job_id, "checkpoint_triggered", told)
                await uow.outbox.add(one.job_id, made.effects, now)
            await uow.commit()
    return due.others


def _trigger(due: DueCheckpoint, now: datetime) -> Triggered:
    settings = due.graph.checkpointing
    checkpoint, _, effects = checkpoints.trigger(
        due.number,
        due.attempt,
        CheckpointKind.PERIODIC,
        job_plan.awaited(due.graph, due.parallelism),
        now,
        now + settings.timeout,
    )
    return Triggered(due.job_id, checkpoint, now + settings.interval, effects)


@dataclass(frozen=True, slots=True)
class Ack:
    runner: RunnerId
    token_hash: str
    job_id: JobId
    checkpoint: CheckpointNumber
    event: BarrierAcked


class Acks:
    """Acks that come at the same time, taken together."""

    def __init__(self, units: UnitsOfWork) -> None:
        self._units = units
        self._batcher: RequestBatcher[Ack, Acknowledged | None] = RequestBatcher(
            self._take, _GATHER_SECONDS
        )
        self.one_by_one = asyncio.Semaphore(_ONE_BY_ONE)
        """Held by who takes one that is not plain: each of them has a connection of its own."""

    async def note(self, ack: Ack) -> Acknowledged | None:
        """None: it is not plain, and nothing was written."""
        return await self._batcher.ask(ack)

    async def _take(self, batch: Sequence[PendingRequest[Ack, Acknowledged | None]]) -> None:
        async with self._units(Actor.RUNNER) as uow:
            asked = {one.asked.job_id: one.asked.checkpoint for one in batch}
            found = await uow.batched_checkpoints.unacked(asked)
            taken: dict[JobId, PendingRequest[Ack, Acknowledged | None]] = {}
            completed: list[Completed] = []
            for one in batch:
                unacked = found.get(one.asked.job_id)
                done = complete(unacked, one.asked) if unacked else None
                if done is not None and done.job_id not in taken:
                    taken[done.job_id] = one
                    completed.append(done)
            if completed:
                await uow.batched_checkpoints.complete(completed)
                for done in completed:
                    acked, at = done.checkpoint.snapshots, done.at
                    told = facts(found[done.job_id].graph.name, done.checkpoint, at, acked)
                    await uow.history.announce(done.job_id, "checkpoint_ack", told)
                    # The reply tells the runner: what is for it can wait for its next question.
                    await uow.outbox.add(done.job_id, done.effects, at, rings=False)
                await uow.commit()
        for job_id, one in taken.items():
            before = found[job_id].checkpoint
            after = one.asked.event.at - before.triggered_at
            one.settle(Acknowledged(AckOutcome.COMPLETED, before.kind, after))
        for one in batch:
            if one.is_open:
                one.settle(None)


def complete(unacked: Unacked, ack: Ack) -> Completed | None:
    """What the ack comes to, where it completes its checkpoint; None: that is not plain."""
    is_its_runner = ack.runner == unacked.runner and ack.event.attempt == unacked.runner_attempt
    if not is_its_runner or not hmac.compare_digest(unacked.token_hash, ack.token_hash):
        return None
    if ack.checkpoint != unacked.checkpoint.number:
        return None
    checkpoint, outcome, effects = checkpoints.transition(unacked.checkpoint, ack.event)
    if outcome is not AckOutcome.COMPLETED:
        return None
    settings, now = unacked.graph.checkpointing, ack.event.at
    following = unacked.next_checkpoint_at
    restorable = sorted([*unacked.restorable, checkpoint.number])
    old = set(superfluous(restorable, settings.retained)) - unacked.pinned
    discarded = tuple(sorted(old))
    effects = (*effects, *map(DiscardCheckpoint, discarded))
    if checkpoint.attempt > 1 and restorable[-1] == checkpoint.number:
        effects = (*effects, DiscardAttempts(checkpoint.attempt))
    return Completed(
        job_id=unacked.job_id,
        checkpoint=checkpoint,
        at=now,
        next_checkpoint_at=max(following, now + settings.min_pause) if following else None,
        discarded=discarded,
        effects=effects,
    )
