"""Runners: their rows in the database, and their processes."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

from jobmanager.core.ids import (
    AttemptNumber,
    JobId,
    RunnerId,
)
from jobmanager.core.life.attempt import Attempt
from jobmanager.core.life.replacement import EarlierRunner, at_rest_at


@dataclass(frozen=True, slots=True)
class Runner:
    id: RunnerId
    job_id: JobId
    attempt: AttemptNumber
    token_hash: str
    """Of its secret."""
    host: str
    log_path: str
    launched_at: datetime
    pid: int | None = None
    process_started_at: float | None = None
    spark_version: str | None = None
    registered_at: datetime | None = None
    heartbeat_at: datetime | None = None
    exited_at: datetime | None = None
    exit_description: str | None = None
    versions: Mapping[str, Any] = field(default_factory=dict)
    memory: Mapping[str, Any] | None = None
    protocol: int = 1
    """The version of the runner protocol that the runner named when it registered."""
    fence_after: timedelta | None = None
    """How long it may go on without a JobManager if its sinks cannot be fenced; None: for ever."""
    ended_at: datetime | None = None
    """When it reported the end of the attempt that it has: nothing of that runs any more."""
    process: UUID | None = None
    """The process that serves it, if that served another runner before, or serves several."""
    shares_process: bool = False
    """Whether its process serves several runners at the same time."""

    @property
    def process_id(self) -> UUID:
        """The mark of its process, and of all that the process has started."""
        return self.process or self.id

    def rests_at(self, listening_since: datetime) -> datetime | None:
        """From when on it surely writes nothing any more; None: now already. What it may have
        said to another leader, whose clock is not ours, counts as said when we began to listen.
        """
        heard_at = self.heartbeat_at
        known = EarlierRunner(
            None if heard_at is None else max(heard_at, listening_since),
            self.fence_after,
            is_gone=self.exited_at is not None,
            has_reported_end=self.ended_at is not None,
        )
        return at_rest_at(known)


@dataclass(frozen=True, slots=True)
class RunnerAtWork:
    """A runner, and the state of its attempt."""

    runner: Runner
    attempt: Attempt
    attempt_token_hash: str | None = None


@dataclass(frozen=True, slots=True)
class Launched:
    host: str
    pid: int
    process_started_at: float
    log_path: str
    process: UUID | None = None
    """As `Runner.process`."""


class Runners(Protocol):
    async def add(self, runner: Runner) -> None: ...
    async def get(self, runner_id: RunnerId) -> Runner: ...
    async def get_for_update(self, runner_id: RunnerId) -> Runner:
        """The same, with the row locked: no heartbeat is written until the transaction ends."""

    async def save(self, runner: Runner) -> None: ...
    async def note_process(self, runner_id: RunnerId, process: Launched) -> None: ...
    async def note_end(self, runner_id: RunnerId, attempt: AttemptNumber, at: datetime) -> None:
        """The runner says that nothing of this attempt runs any more. Nothing is noted where it
        has another attempt by now.
        """
        ...

    async def note_heartbeats(
        self, heard: Mapping[RunnerId, Mapping[str, Any] | None], at: datetime
    ) -> None:
        """Record heartbeats, with the memory that each runner reports, of all runners whose rows
        are not locked.
        """
        ...

    async def at_work(
        self, only: Sequence[RunnerId] | None = None
    ) -> Mapping[RunnerId, RunnerAtWork]:
        """Return these runners, or all that are not known to have exited."""
        ...

    async def before(self, job_id: JobId, attempt: AttemptNumber) -> Sequence[Runner]:
        """The runners of earlier attempts of the job that are not known to be gone."""
        ...

    async def of_attempt(self, job_id: JobId, attempt: AttemptNumber) -> Runner | None: ...
    async def alive(self) -> Sequence[Runner]: ...
    async def all(self, limit: int) -> Sequence[Runner]: ...


class Launcher(Protocol):
    """Starts and ends runners."""

    def host(self) -> str: ...
    def log_path(self, runner_id: RunnerId) -> str: ...
    def reserve(self, needs: Collection[str] = ()) -> RunnerId | None:
        """Reserve a process that waits for a job, and has the jars of these connector packages.
        The launch of that runner takes it.
        """

    def process_of(self, runner_id: RunnerId) -> UUID | None:
        """The process that is reserved for the runner, if it has served another runner before, or
        serves several.
        """

    def share(self, runner_id: RunnerId) -> bool:
        """Reserve a place for the runner in a shared process, which the launch takes. False: this
        machine has none.
        """

    async def await_returning(self) -> None:
        """Wait a moment for a process that is about to be free, if no other waits for a job."""

    def expect_return(self, runner_id: RunnerId, attempt: AttemptNumber) -> None:
        """Allow that the runner's process serves another job after this attempt."""

    async def launch(self, runner_id: RunnerId, secret: str) -> Launched:
        """Starts the runner's process and tells it its secret, and nobody else."""

    async def find(self, runner: Runner) -> Launched | None:
        """Find the runner's process on this machine, whoever started it."""

    async def kill(self, runner: Runner) -> str:
        """End the runner by force, and all that it has started. A runner that shares its process is
        asked to end first, and this does not wait: the process is killed if the runner goes on.
        """

    async def watch(self, runner: Runner) -> None: ...
