"""The steps of every use case that changes a job: load its life, step, save, commit.

`core.life.life` decides. This module reads the life under the job's lock, and writes what the step
changed, its effects to the outbox and its history, all in one transaction.
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
    """The outcome of an event."""

    before: Life | None
    """None: the job was just submitted."""
    step: Step
    at: datetime

    @property
    def life(self) -> Life:
        return self.step.life

    @property
    def is_nothing(self) -> bool:
        return self.step.life is self.before and not self.step.effects and not self.step.history


async def happen(uow: UnitOfWork, job_id: JobId, event: LifeEvent) -> Happened:
    """Run a whole use case: load, step, save, commit."""
    async with uow:
        happened = await move(uow, job_id, event)
        await uow.commit()
    return happened


async def move(uow: UnitOfWork, job_id: JobId, event: LifeEvent) -> Happened:
    """Do the same inside a transaction of the caller, who commits."""
    before = await uow.lives.load(job_id, spoken_of(event))
    happened = Happened(before, step(before, event), event.at)
    await save(uow, happened)
    return happened


def spoken_of(event: LifeEvent) -> SpokenOf:
    """Return what has to be loaded in addition to what is under way."""
    match event:
        case CheckpointNews():
            return SpokenOf(checkpoint=event.checkpoint)
        case AttemptNews() | LaunchFailed() | RunnerLeft() | RunnerGivenUp() | HeartbeatReceived():
            return SpokenOf(attempt=event.attempt)
        case _:
            return SpokenOf()


async def save(uow: UnitOfWork, *happened: Happened, wakes_runners: bool = True) -> None:
    """Write the outcome of steps, of one or many jobs. With `wakes_runners` off, directives wait
    for the runner's next poll.
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
