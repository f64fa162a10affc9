"""One session, one transaction."""

from collections.abc import Callable, Iterable
from typing import Self

from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from jobmanager.core.errors import StoreUnavailable
from jobmanager.core.ids import JobId
from jobmanager.services.ports import (
    Actor,
    Attempts,
    Checkpoints,
    History,
    Jobs,
    KeyGroups,
    Operations,
    Outbox,
    Runners,
    Savepoints,
    Statistics,
)
from jobmanager.store.checkpoints import PostgresCheckpoints, PostgresKeyGroups
from jobmanager.store.history import PostgresHistory
from jobmanager.store.jobs import PostgresAttempts, PostgresJobs, PostgresRunners
from jobmanager.store.outbox import PostgresOutbox
from jobmanager.store.savepoints import PostgresOperations, PostgresSavepoints
from jobmanager.store.statistics import PostgresStatistics


class PostgresUnitOfWork:
    """Leaving without `commit` rolls back."""

    jobs: Jobs
    attempts: Attempts
    runners: Runners
    checkpoints: Checkpoints
    savepoints: Savepoints
    operations: Operations
    key_groups: KeyGroups
    outbox: Outbox
    history: History
    statistics: Statistics

    def __init__(
        self,
        sessions: async_sessionmaker[AsyncSession],
        on_commit: Callable[[Iterable[JobId]], None] = lambda jobs: None,
        actor: Actor = Actor.JOBMANAGER,
    ) -> None:
        self._sessions = sessions
        self._on_commit = on_commit
        self._actor = actor

    async def __aenter__(self) -> Self:
        self._session = self._sessions()
        self.jobs = PostgresJobs(self._session)
        self.attempts = PostgresAttempts(self._session)
        self.runners = PostgresRunners(self._session)
        self.checkpoints = PostgresCheckpoints(self._session)
        self.savepoints = PostgresSavepoints(self._session)
        self.operations = PostgresOperations(self._session)
        self.key_groups = PostgresKeyGroups(self._session)
        self.outbox = self._outbox = PostgresOutbox(self._session)
        self.statistics = PostgresStatistics(self._session)
        self.history = self._history = PostgresHistory(self._session, self._actor)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._session.close()
        error = exc_info[1]
        if isinstance(error, OperationalError | PoolTimeout) or (
            isinstance(error, DBAPIError) and error.connection_invalidated
        ):
            first_line = str(error).partition("\n")[0]
            raise StoreUnavailable(f"Postgres does not answer: {first_line}") from error

    async def commit(self) -> None:
        await self._history.write()  # last: it takes a lock that all share
        await self._session.commit()
        if self._outbox.added_for:
            self._on_commit(self._outbox.added_for)
