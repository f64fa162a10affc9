"""How every use case that moves a job goes: load its life, step, save, commit.

`core.life.life` decides. Here its life is read under the job's lock, what the step changed is
written, and effects and history go where they belong, all in one transaction.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from jobmanager.core.ids import JobId
from jobmanager.core.life import effects
from jobmanager.core.life.events import (
    AttemptNews,
    CheckpointNews,
    HeartbeatReceived,
    LaunchFailed,
    LifeEvent,
    RunnerGivenUp,
    RunnerLeft,
)
from jobmanager.core.life.life import Announcement, Life, Step, step
from jobmanager.services.ports.lives import LifeChange, SpokenOf
from jobmanager.services.ports.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class Happened:
    """What an event came to."""

    before: Life | None
    """None: the life has just begun."""
    step: Step
    at: datetime

    @property
    def life(self) -> Life:
        return self.step.life

    @property
    def is_nothing(self) -> bool:
        return self.step.life is self.before and not self.step.effects and not self.step.history


async def happen(uow: UnitOfWork, job_id: JobId, event: LifeEvent) -> Happened:
    """The whole of a use case: load, step, save, commit."""
    async with uow:
        happened = await move(uow, job_id, event)
        await uow.commit()
    return happened


async def move(uow: UnitOfWork, job_id: JobId, event: LifeEvent) -> Happened:
    """The same inside a transaction of the caller, who commits."""
    before = await uow.lives.load(job_id, spoken_of(event))
    happened = Happened(before, step(before, event), event.at)
    await save(uow, happened)
    return happened


def spoken_of(event: LifeEvent) -> SpokenOf:
    """What is to be loaded beside what is under way."""
    match event:
        case CheckpointNews():
            return SpokenOf(checkpoint=event.checkpoint)
        case AttemptNews() | LaunchFailed() | RunnerLeft() | RunnerGivenUp() | HeartbeatReceived():
            return SpokenOf(attempt=event.attempt)
        case _:
            return SpokenOf()


async def save(uow: UnitOfWork, *happened: Happened, wakes_runners: bool = True) -> None:
    """Writes down what steps came to, of one job or of many. With `wakes_runners` off, what is
    for a runner waits for its next question.
    """
    news = [one for one in happened if not one.is_nothing]
    await uow.lives.save([LifeChange(one.before, one.life, one.at) for one in news])
    for one in news:
        job_id = one.life.job.id
        for effect in one.step.effects:
            await _add(uow, job_id, effect, one.at, wakes_runners)
        for entry in one.step.history:
            if isinstance(entry, Announcement):
                await uow.history.announce(job_id, entry.kind, entry.facts)
            else:
                await uow.history.add(job_id, entry)


async def _add(
    uow: UnitOfWork,
    job_id: JobId,
    effect: effects.Effect | effects.ForStore,
    at: datetime,
    wakes_runners: bool,
) -> None:
    match effect:
        case effects.HandOverRunner():
            await uow.outbox.forget(job_id, effect.attempt)
            runner = await uow.runners.of_attempt(job_id, effect.attempt)
            assert runner is not None, "only a runner that lives is handed over"
            await uow.runners.save(replace(runner, attempt=effect.to, ended_at=None))
        case effects.DismissRunner():
            await uow.outbox.forget(job_id, effect.attempt)
            runner = await uow.runners.of_attempt(job_id, effect.attempt)
            if runner is not None:
                gone = replace(runner, exited_at=at, exit_description=effect.description)
                await uow.runners.save(gone)
        case _:
            await uow.outbox.add(job_id, [effect], at, wakes=wakes_runners)
