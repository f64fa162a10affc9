"""A unit of work on the simulated database, for the real use cases of `jobmanager/services`.

Nothing is written before the commit: each statement is kept in the transaction, in order. A use
case is a coroutine; wherever it awaits, other tasks may run first.
"""

from collections.abc import Coroutine, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from jobmanager.core.errors import RunnerNotFound
from jobmanager.core.ids import AttemptNumber, CheckpointNumber, JobId, RunnerId
from jobmanager.core.life import life as machine
from jobmanager.core.life.checkpoint import CheckpointStatus
from jobmanager.core.life.draft import Life, Step
from jobmanager.core.life.effects import Effect
from jobmanager.core.life.events import LifeEvent
from jobmanager.core.life.records import (
    HistoryEntry,
    Savepoint,
    StoredAttempt,
    StoredJob,
    StoredOperation,
)
from jobmanager.services import lives
from jobmanager.services.ports.lives import LifeChange, SpokenOf
from jobmanager.services.ports.runners import Launched, Runner, RunnerAtWork
from tests.simulation.database import Database, Transaction, loaded
from tests.simulation.scheduler import Steps, Wait

if TYPE_CHECKING:
    from tests.simulation.jobmanager import JobManagerParty

T = TypeVar("T")


def running(use_case: Coroutine[Any, Any, T]) -> Steps[T]:
    """The steps of a use case."""
    try:
        return (yield from use_case.__await__())
    finally:
        use_case.close()


def driven(use_case: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits."""
    try:
        use_case.send(None)
    except StopIteration as finished:
        result: T = finished.value
        return result
    raise AssertionError("it waited for something")


class SimulatedUnitOfWork:
    """As much of a unit of work as these use cases need."""

    def __init__(self, jobmanager: "JobManagerParty") -> None:
        self._jobmanager = jobmanager

    async def __aenter__(self) -> Self:
        database = self._jobmanager.database
        self._transaction = transaction = database.begin(self._jobmanager.term)
        self.jobs = _Jobs(transaction)
        self.lives = _Lives(transaction)
        self.attempts = _Attempts(transaction.database)
        self.operations = _Operations(transaction.database)
        self.outbox = _Outbox(transaction)
        self.runners = _Runners(transaction)
        self.checkpoints = _Checkpoints(transaction)
        self.savepoints = _Savepoints(transaction)
        self.history = _History()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._transaction.close()

    async def commit(self) -> None:
        await Waiting(_pause())
        self._transaction.commit()
        for told in self.lives.told:
            self._jobmanager.tell_step(*told)


class Waiting(Generic[T]):
    """Steps that a coroutine waits for."""

    def __init__(self, steps: Steps[T]) -> None:
        self._steps = steps

    def __await__(self) -> Generator[Wait, None, T]:
        return self._steps


def _pause() -> Steps[None]:
    yield None


class StepRecorder:
    """The real step, which notes what it was asked: for the invariants, the store is not told."""

    def __init__(self) -> None:
        self.event: LifeEvent | None = None
        self.result: Step | None = None

    def step(self, life: Life, event: LifeEvent) -> Step:
        self.event, self.result = event, machine.step(life, event)
        return self.result


recorder = StepRecorder()
vars(lives)["step"] = recorder.step


class _Jobs:
    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def get_for_update(self, job: JobId) -> StoredJob:
        await Waiting(self._transaction.lock(job))
        return self._transaction.database.lives[job].job

    async def started_from(self, directory: str) -> list[JobId]:
        return self._transaction.database.started_from(directory)

    async def started_from_checkpoint(
        self, job: JobId, checkpoint: CheckpointNumber
    ) -> list[JobId]:
        return self._transaction.database.started_from_checkpoint(job, checkpoint)

    async def restart_due(self, now: datetime) -> list[JobId]:
        return [
            life.job.id
            for life in self._transaction.database.lives.values()
            if life.job.job.restart_at is not None and life.job.job.restart_at <= now
        ]


class _Attempts:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, job: JobId, number: AttemptNumber) -> StoredAttempt:
        return self._database.lives[job].attempts[number]

    async def grace_ended(self, now: datetime) -> list[tuple[JobId, AttemptNumber]]:
        return [
            (life.job.id, number)
            for life in self._database.lives.values()
            for number, one in life.attempts.items()
            if one.attempt.kill_at is not None and one.attempt.kill_at <= now
        ]


class _Operations:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def changes_under_way(self) -> list[StoredOperation]:
        under_way = (life.operation for life in self._database.lives.values())
        return [one for one in under_way if one is not None and one.operation.kind.is_change]


class _Lives:
    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._before: dict[JobId, Life] = {}
        """With what was not loaded."""
        self.told: list[tuple[Life, LifeEvent, Step]] = []

    async def load(self, job: JobId, spoken_of: SpokenOf) -> Life:
        await Waiting(self._transaction.lock(job))
        life = self._before[job] = self._transaction.database.load(job)
        return loaded(life, spoken_of)

    async def save(self, changes: Sequence[LifeChange]) -> None:
        for change in changes:
            event, step = recorder.event, recorder.result
            assert event is not None
            assert step is not None
            assert step.life is change.after
            before = self._before[change.after.job.id]
            self._transaction.save(before, event, step)
            self.told.append((before, event, step))


class _Outbox:
    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def add(
        self, job: JobId, effects: Iterable[Effect], at: datetime, *, wakes: bool = True
    ) -> None:
        database, kept = self._transaction.database, list(effects)
        self._transaction.write(lambda: database.add_to_outbox(job, kept), job, is_news=True)

    async def forget(self, job: JobId, attempt: AttemptNumber) -> None:
        database = self._transaction.database
        self._transaction.write(lambda: database.forget(job, attempt))


class _Runners:
    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def get(self, runner: RunnerId) -> Runner:
        found = self._transaction.database.runners.get(runner)
        if found is None:
            raise RunnerNotFound(f"runner {runner} not found")
        return found

    async def at_work(self) -> dict[RunnerId, RunnerAtWork]:
        database = self._transaction.database
        return {
            row.id: RunnerAtWork(row, database.lives[row.job_id].attempts[row.attempt].attempt)
            for row in database.runners.values()
            if row.exited_at is None
        }

    async def note_process(self, runner: RunnerId, process: Launched) -> None:
        runners = self._transaction.database.runners
        self._transaction.write(
            lambda: runners.update({runner: replace(runners[runner], pid=process.pid)})
        )

    async def of_attempt(self, job: JobId, attempt: AttemptNumber) -> Runner | None:
        return self._transaction.database.runner_of(job, attempt)

    async def before(self, job: JobId, attempt: AttemptNumber) -> list[Runner]:
        return [
            row
            for row in self._transaction.database.runners.values()
            if row.job_id == job and row.attempt < attempt and row.exited_at is None
        ]

    async def note_end(self, runner: RunnerId, attempt: AttemptNumber, at: datetime) -> None:
        runners = self._transaction.database.runners

        def note() -> None:
            if runners[runner].attempt == attempt:
                runners[runner] = replace(runners[runner], ended_at=at)

        self._transaction.write(note)

    async def save(self, row: Runner) -> None:
        runners = self._transaction.database.runners
        self._transaction.write(lambda: runners.update({row.id: row}))

    async def add(self, row: Runner) -> None:
        await self.save(row)


class _Checkpoints:
    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def expired(self, now: datetime) -> list[tuple[JobId, CheckpointNumber]]:
        return [
            (life.job.id, number)
            for life in self._transaction.database.lives.values()
            for number, one in life.checkpoints.items()
            if one.status is CheckpointStatus.IN_PROGRESS and one.expires_at <= now
        ]

    async def note_discarded(self, job: JobId, number: CheckpointNumber, at: datetime) -> None:
        database: Database = self._transaction.database
        self._transaction.write(lambda: database.note_discarded(job, number), job)


class _Savepoints:
    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def at(self, directory: str) -> Savepoint | None:
        for life in self._transaction.database.lives.values():
            for saved in life.savepoints.values():
                if saved.directory == directory:
                    return saved
        return None

    async def save(self, savepoint: Savepoint) -> None:
        database, job = self._transaction.database, savepoint.job_id
        assert job is not None
        self._transaction.write(lambda: database.write_savepoint(job, savepoint), job)


class _History:
    """The invariants keep books of their own."""

    async def add(self, job: JobId, entry: HistoryEntry) -> None: ...
    async def announce(self, job: JobId, kind: str, facts: Mapping[str, Any]) -> None: ...
