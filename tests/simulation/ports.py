"""The ports of the real dispatcher and reaper beside the database: processes and storage."""

from collections.abc import Collection
from typing import TYPE_CHECKING
from uuid import UUID

from jobmanager.core.ids import AttemptNumber, CheckpointNumber, JobId, RunnerId
from jobmanager.services.ports.runners import Launched, Runner
from tests.simulation.scheduler import Steps
from tests.simulation.storage import Storage
from tests.simulation.unit_of_work import Waiting

if TYPE_CHECKING:
    from tests.simulation.jobmanager import JobManagerParty


class LaunchFailure(Exception):
    """No process could be started."""


class SimulatedLauncher:
    """Processes of the machine that a JobManager is on."""

    def __init__(self, jobmanager: "JobManagerParty") -> None:
        self._jobmanager = jobmanager

    def host(self) -> str:
        return self._jobmanager.host

    def log_path(self, runner: RunnerId) -> str:
        return ""

    def reserve(self, needs: Collection[str] = ()) -> RunnerId | None:
        return None

    def process_of(self, runner: RunnerId) -> UUID | None:
        return None

    def share(self, runner: RunnerId) -> bool:
        return False

    async def await_returning(self) -> None:
        pass

    def expect_return(self, runner: RunnerId, attempt: AttemptNumber) -> None:
        pass

    async def find(self, runner: Runner) -> Launched | None:
        is_here = runner.host == self.host()
        has_process = self._jobmanager.world.has_process(runner.id, self.host())
        return self._launched() if is_here and has_process else None

    async def launch(self, runner: RunnerId, secret: str) -> Launched:
        world = self._jobmanager.world
        await Waiting(_pause())
        if world.start_fails():
            raise LaunchFailure("no process could be started")
        world.launch(runner, secret, self.host())
        await Waiting(_pause())
        return self._launched()

    async def watch(self, runner: Runner) -> None:
        self._jobmanager.watch(runner)

    async def kill(self, runner: Runner) -> str:
        await Waiting(_pause())
        self._jobmanager.world.kill(runner.id, self.host())
        return "killed"

    def _launched(self) -> Launched:
        return Launched(self.host(), 1, 0.0, "")


class SimulatedStorage:
    """Storage as a JobManager changes it."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    async def discard_checkpoint(
        self, job: JobId, number: CheckpointNumber, *, was_completed: bool = False
    ) -> None:
        await Waiting(self._storage.of(job).discard_checkpoint(number, was_completed))

    async def discard_attempts(self, job: JobId, before: AttemptNumber) -> None:
        self._storage.of(job).discard_attempts(before)

    async def dispose_savepoint(self, directory: str) -> None:
        self._storage.dispose_savepoint(directory)


def _pause() -> Steps[None]:
    yield None
