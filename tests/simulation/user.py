"""A user of the simulated system: submits a job, sends requests, and repeats requests that are not
answered.
"""

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

from jobmanager.core.ids import JobId, OperationId, SavepointId
from jobmanager.core.life.job import JobStatus
from jobmanager.core.life.operation import OperationKind
from jobmanager.core.life.savepoint import SavepointStatus
from tests.simulation.graphs import Simulated, simulated
from tests.simulation.network import LONGEST_DELAY_MS, NotDelivered, Refused
from tests.simulation.requests import (
    CancelJob,
    Dispose,
    PauseJob,
    Request,
    Rescale,
    ResumeJob,
    Submit,
    TakeCheckpoint,
    TakeSavepoint,
    Upgrade,
)
from tests.simulation.scheduler import Party, Steps

if TYPE_CHECKING:
    from tests.simulation.world import World

_RETRY_MS = 800
_LOOK_MS = 1_000


class UserParty(Party):
    def __init__(self, world: "World", graph: Simulated) -> None:
        super().__init__("user", world.scheduler)
        self._world = world
        self._graph = graph
        self.job = world.new_job(graph)
        self.accepted: list[Request] = []
        """What a JobManager has said yes to."""
        self.is_done = False
        self._forks_under_way = 0
        self._address = 0
        self.spawn("requests", self._requests())

    def _requests(self) -> Steps[None]:
        yield from self._ask(Submit(self.job, self._graph))
        for _ in range(1 + self._world.choices.below(4)):
            yield self.scheduler.now + 500 + 500 * self._world.choices.below(10)
            while not self._world.choices.is_dull and not self._is_running:
                if (successor := self._successor()) is not None:
                    yield from self._ask(successor)
                    self.job = successor.job
                    if successor.claims and self._world.choices.below(4):
                        self._forks_under_way += 1
                        self.spawn("a second fork", self._fork_again(successor))
                yield self.scheduler.now + _LOOK_MS
            if self._world.choices.is_dull:
                break
            if self._graph.variant.ends_with_checkpoint and self._world.choices.below(3):
                yield from self._rescale_near_the_end()
                continue
            wish = self._wish()
            yield from self._ask(wish)
            if isinstance(wish, PauseJob):
                yield from self._rest()
        while self._forks_under_way:
            yield self.scheduler.now + _LOOK_MS
        self.is_done = True

    def _rescale_near_the_end(self) -> Steps[None]:
        """So that the input ends before the rescale has proved itself."""
        until = self.scheduler.now + 10_000
        while self.scheduler.now < until and not self._world.is_near_end_of_input(self.job):
            yield self.scheduler.now + 100
        parallelism = (4, 1)[self._world.choices.below(2)]
        yield from self._ask(Rescale(self.job, self._operation(), self._savepoint(), parallelism))

    def _rest(self) -> Steps[None]:
        """Resumes the job soon after its pause was requested, or later, or cancels it."""
        yield self.scheduler.now + 250 * self._world.choices.below(40)
        if self._world.choices.below(5) == 4:
            yield from self._ask(CancelJob(self.job))
        yield from self._ask(ResumeJob(self.job))
        if PauseJob(self.job) in self._world.network.late_calls:
            # It may come after the resume, and then it pauses the job again.
            yield self.scheduler.now + LONGEST_DELAY_MS + 50
            yield from self._ask(ResumeJob(self.job))

    def _fork_again(self, first: Submit) -> Steps[None]:
        """Another job from what the first has claimed, with a sink of its own: before the first
        has a checkpoint of its own, or at about the time at which it has no more need of it.
        """
        if self._world.choices.below(2):
            yield self.scheduler.now + 500 * self._world.choices.below(6)
        else:
            until = self.scheduler.now + 10_000
            while self.scheduler.now < until and not self._is_checkpointing(first.job):
                yield self.scheduler.now + 100
            yield self.scheduler.now + 10 * self._world.choices.below(20)
        job = self._world.new_job(self._graph)
        yield from self._ask(replace(first, job=job, claims=False))
        self._forks_under_way -= 1

    def _successor(self) -> Submit | None:
        """A job that goes on where one that has ended was when it took a savepoint, and goes on
        with its output.
        """
        life = self._world.life(self.job)
        if life is None or not life.job.job.status.is_terminal:
            return None
        if life.restorable and self._world.choices.below(3) == 2:
            forked = self._world.new_job(self._graph)
            return Submit(forked, self._graph, checkpoint_of=self.job, claims=True)
        done = [s for s in life.savepoints.values() if s.status is SavepointStatus.COMPLETED]
        if not done:
            return None
        savepoint = done[self._world.choices.below(len(done))]
        job = self._world.new_job(self._graph, output_of=self.job)
        claims = self._world.choices.below(3) > 0
        return Submit(job, self._graph, savepoint=savepoint, claims=claims)

    def _is_checkpointing(self, job: JobId) -> bool:
        life = self._world.life(job)
        return life is not None and bool(life.checkpoints_under_way)

    @property
    def _is_running(self) -> bool:
        life = self._world.life(self.job)
        return life is not None and life.job.job.status is JobStatus.RUNNING

    def _wish(self) -> Request:
        choices, job = self._world.choices, self.job
        match choices.below(14):
            case 0 | 1 | 2 | 3:
                return Rescale(
                    job, self._operation(), self._savepoint(), (4, 1, 2)[choices.below(3)]
                )
            case 4 | 5:
                return TakeSavepoint(
                    job, self._operation(), self._savepoint(), OperationKind.SAVEPOINT
                )
            case 6:
                kind, drains = OperationKind.STOP, choices.below(2) == 1
                return TakeSavepoint(job, self._operation(), self._savepoint(), kind, drains)
            case 7:
                return CancelJob(job)
            case 8:
                kind = (OperationKind.CANCEL, OperationKind.STOP)[choices.below(2)]
                return TakeSavepoint(job, self._operation(), self._savepoint(), kind)
            case 9 | 10:
                return self._fork()
            case 11:
                return self._disposal()
            case 12:
                variant = self._graph.variant
                if choices.below(2):
                    upgraded = simulated(replace(variant, owner="night shift"))
                else:
                    upgraded = simulated(replace(variant, retained=3 - variant.retained))
                return Upgrade(job, self._operation(), self._savepoint(), upgraded)
            case _:
                return PauseJob(job) if choices.below(3) else TakeCheckpoint(job)

    def _disposal(self) -> Request:
        """Of any savepoint that is complete, whoever needs it."""
        done = [
            (job, saved.id)
            for job, life in self._world.database.lives.items()
            for saved in life.savepoints.values()
            if saved.status is SavepointStatus.COMPLETED
        ]
        if not done:
            return TakeCheckpoint(self.job)
        return Dispose(*done[self._world.choices.below(len(done))])

    def _fork(self) -> Request:
        """Another job, with a sink of its own, from the newest checkpoint of the first."""
        return Submit(self._world.new_job(self._graph), self._graph, self.job)

    def _operation(self) -> OperationId:
        return OperationId(UUID(int=self._world.next_number()))

    def _savepoint(self) -> SavepointId:
        return SavepointId(UUID(int=self._world.next_number() << 96))

    def _ask(self, request: Request) -> Steps[JobId | None]:
        """Until there is an answer. Repeated with the same ids it is the same request."""
        while True:
            servers = self._world.jobmanagers
            try:
                server = servers[self._address % len(servers)]
                yield from self._world.network.ask(self.name, server, request)
            except NotDelivered:
                self._address += 1
                yield self.scheduler.now + _RETRY_MS
                continue
            except Refused:
                return None
            self.accepted.append(request)
            return request.job
