"""A transaction, and everything that can be loaded and saved within it."""

from typing import Protocol, Self

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


class UnitOfWork(Protocol):
    """One transaction. Changes that are not committed are lost."""

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

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *exc_info: object) -> None: ...
    async def commit(self) -> None: ...


class UnitsOfWork(Protocol):
    def __call__(
        self,
        actor: Actor = Actor.JOBMANAGER,
        actor_name: str | None = None,
        *,
        only_reads: bool = False,
    ) -> UnitOfWork:
        """`only_reads`: nothing will be committed, and each question may see a later state than
        the question before, as in any transaction of Postgres at its default isolation.
        """
