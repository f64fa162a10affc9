"""What a step came to, saved by the real `services.lives.save` into the simulated database.

Nothing is written before the commit: each statement is kept in the transaction, in order.
"""

from collections.abc import Coroutine, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from jobmanager.core.ids import AttemptNumber, CheckpointNumber, JobId
from jobmanager.core.life.draft import Life, Step
from jobmanager.core.life.effects import Effect
from jobmanager.core.life.events import LifeEvent
from jobmanager.core.life.records import HistoryEntry
from jobmanager.services import lives
from jobmanager.services.lives import Happened
from jobmanager.services.ports.lives import LifeChange
from tests.simulation.database import RunnerRow, Transaction, whole

_Told = TypeVar("_Told")


def save(
    transaction: Transaction,
    before: Life | None,
    event: LifeEvent | None,
    happened: Happened,
) -> Step:
    """Saves a step. `before` is the life with what was not loaded for it. Returns the step with
    that, too.
    """
    uow: Any = _SavingUnitOfWork(transaction, before, event, happened.step)
    driven(lives.save(uow, happened))
    return whole(before, happened.step) if before is not None else happened.step


def driven(coroutine: Coroutine[Any, Any, _Told]) -> _Told:
    """The result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as finished:
        result: _Told = finished.value
        return result
    raise AssertionError("it waited for something")


class _SavingUnitOfWork:
    """As much of a unit of work as `services.lives.save` needs."""

    def __init__(
        self, transaction: Transaction, before: Life | None, event: LifeEvent | None, step: Step
    ) -> None:
        self.lives = _Lives(transaction, before, event, step)
        self.outbox = _Outbox(transaction)
        self.runners = _Runners(transaction)
        self.checkpoints = _Checkpoints(transaction)
        self.history = _History()


class _Lives:
    def __init__(
        self, transaction: Transaction, before: Life | None, event: LifeEvent | None, step: Step
    ) -> None:
        self._transaction = transaction
        self._before = before
        self._event = event
        self._step = step

    async def save(self, changes: Sequence[LifeChange]) -> None:
        for _ in changes:
            self._transaction.save(self._before, self._event, self._step)


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

    async def of_attempt(self, job: JobId, attempt: AttemptNumber) -> RunnerRow | None:
        return self._transaction.database.runner_of(job, attempt)

    async def save(self, row: RunnerRow) -> None:
        runners = self._transaction.database.runners
        self._transaction.write(lambda: runners.update({row.id: row}))


class _Checkpoints:
    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def note_discarded(self, job: JobId, number: CheckpointNumber, at: datetime) -> None:
        database = self._transaction.database
        self._transaction.write(lambda: database.note_discarded(job, number), job)


class _History:
    """The invariants keep books of their own."""

    async def add(self, job: JobId, entry: HistoryEntry) -> None: ...
    async def announce(self, job: JobId, kind: str, facts: Mapping[str, Any]) -> None: ...
