"""Slots of runners: how many tasks Spark runs at the same time, and how many a job takes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from jobmanager.core.ids import JobId
from jobmanager.core.plan.known_plans import plan_of
from jobmanager.services.ports.job_reads import GraphInForce
from jobmanager.services.ports.runners import Runner
from jobmanager.services.ports.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class RunnerSlots:
    runner: Runner
    slots: int
    taken: int
    tasks: int
    """Subtasks of the job that the runner runs."""

    @property
    def free(self) -> int:
        return self.slots - self.taken


async def read_slots(uow: UnitOfWork) -> list[RunnerSlots]:
    """Return the slots of every runner that is alive."""
    runners = await uow.runners.alive()
    return slots_of(runners, await uow.job_reads.running())


def slots_of(runners: Iterable[Runner], running: Mapping[JobId, GraphInForce]) -> list[RunnerSlots]:
    """A job takes as many slots as its widest task has subtasks; if Spark runs fewer tasks at the
    same time, it takes all of them, and subtasks wait for their turn. A runner that has not told
    its slots yet has those that its job takes.
    """
    found = []
    for runner in runners:
        job = running.get(runner.job_id)
        widths = (
            [task.parallelism for task in plan_of(job.graph, job.parallelism).tasks] if job else []
        )
        widest = max(widths, default=0)
        told = (runner.memory or {}).get("slots")
        slots = told if isinstance(told, int) else widest
        found.append(RunnerSlots(runner, slots, min(slots, widest), sum(widths)))
    return found
