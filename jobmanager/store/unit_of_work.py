"""One session, one transaction."""

from collections.abc import Callable, Iterable
from typing import Self

from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from jobmanager.core.ids import JobId
from jobmanager.core.life.lease import Term
from jobmanager.services.ports.artifacts import Artifacts
from jobmanager.services.ports.checkpoints import Checkpoints
from jobmanager.services.ports.figures import Samples, Statistics, Summaries
from jobmanager.services.ports.history import Actor, History
from jobmanager.services.ports.jars import Jars
from jobmanager.services.ports.job_reads import JobReads
from jobmanager.services.ports.jobs import Attempts, Jobs, KeyGroups
from jobmanager.services.ports.lives import Lives
from jobmanager.services.ports.outbox import Outbox
from jobmanager.services.ports.pruning import Pruning
from jobmanager.services.ports.runners import Runners
from jobmanager.services.ports.savepoints import Operations, Savepoints
from jobmanager.services.ports.signals import Deliveries, SignalCursors, Webhooks
from jobmanager.store.artifacts import PostgresArtifacts
from jobmanager.store.checkpoints import PostgresCheckpoints, PostgresKeyGroups
from jobmanager.store.deliveries import PostgresDeliveries
from jobmanager.store.history import PostgresHistory
from jobmanager.store.jars import PostgresJars
from jobmanager.store.job_reads import PostgresJobReads
from jobmanager.store.jobs import PostgresAttempts, PostgresJobs, PostgresRunners
from jobmanager.store.leases import check_term
from jobmanager.store.lives import PostgresLives
from jobmanager.store.outages import raise_if_outage
from jobmanager.store.outbox import PostgresOutbox
from jobmanager.store.pruning import PostgresPruning
from jobmanager.store.samples import PostgresSamples
from jobmanager.store.savepoints import PostgresOperations, PostgresSavepoints
from jobmanager.store.signal_cursors import PostgresSignalCursors
from jobmanager.store.statistics import PostgresStatistics
from jobmanager.store.summaries import PostgresSummaries
from jobmanager.store.webhooks import PostgresWebhooks

Leader = Callable[[], Term | None]
"""Returns the term in which this JobManager leads; None: it does not lead."""


class PostgresUnitOfWork:
    """A transaction; leaving it without `commit` rolls back. With a `leader`, a transaction commits
    only in the term in which it began.
    """

    lives: Lives
    jobs: Jobs
    attempts: Attempts
    runners: Runners
    checkpoints: Checkpoints
    savepoints: Savepoints
    operations: Operations
    artifacts: Artifacts
    jars: Jars
    key_groups: KeyGroups
    outbox: Outbox
    history: History
    statistics: Statistics
    samples: Samples
    summaries: Summaries
    job_reads: JobReads
    pruning: Pruning
    webhooks: Webhooks
    deliveries: Deliveries
    signal_cursors: SignalCursors

    def __init__(
        self,
        sessions: async_sessionmaker[AsyncSession],
        on_commit: Callable[[Iterable[JobId]], None] = lambda jobs: None,
        leader: Leader | None = None,
        actor: Actor = Actor.JOBMANAGER,
        actor_name: str | None = None,
    ) -> None:
        self._sessions = sessions
        self._on_commit = on_commit
        self._leader = leader
        self._actor = actor
        self._actor_name = actor_name

    async def __aenter__(self) -> Self:
        self._term = self._leader() if self._leader else None
        self._session = self._sessions()
        self.jobs = PostgresJobs(self._session)
        self.attempts = PostgresAttempts(self._session)
        self.runners = PostgresRunners(self._session)
        self.checkpoints = PostgresCheckpoints(self._session)
        self.lives = PostgresLives(self._session)
        self.savepoints = PostgresSavepoints(self._session)
        self.operations = PostgresOperations(self._session)
        self.artifacts = PostgresArtifacts(self._session)
        self.jars = PostgresJars(self._session)
        self.key_groups = PostgresKeyGroups(self._session)
        self.outbox = self._outbox = PostgresOutbox(self._session)
        self.statistics = PostgresStatistics(self._session)
        self.samples = PostgresSamples(self._session)
        self.summaries = PostgresSummaries(self._session)
        self.job_reads = PostgresJobReads(self._session)
        self.pruning = PostgresPruning(self._session)
        self.webhooks = PostgresWebhooks(self._session)
        self.deliveries = PostgresDeliveries(self._session)
        self.signal_cursors = PostgresSignalCursors(self._session)
        self.history = self._history = PostgresHistory(self._session, self._actor, self._actor_name)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._session.close()
        error = exc_info[1]
        raise_if_outage(error if isinstance(error, Exception) else None)

    async def commit(self) -> None:
        await self._outbox.write()
        # Both last, so that other transactions wait only for the commit.
        await self._history.write()
        if self._leader is not None:
            await check_term(self._session, self._term)
        await self._session.commit()
        if self._outbox.added_for or self._outbox.has_news:
            self._on_commit(self._outbox.added_for)


class ReadingUnitOfWork(PostgresUnitOfWork):
    """Questions without a transaction around them: there is nothing to commit or to roll back."""

    async def commit(self) -> None:
        raise RuntimeError("a unit of work that only reads was to be committed")
