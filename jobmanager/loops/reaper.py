"""Acts on what is overdue: acks, heartbeats, restarts, operations and exits of runners."""

from datetime import datetime, timedelta

from jobmanager.core.life.attempt import Attempt
from jobmanager.core.life.events import KEEP_PAUSED_RUNNER
from jobmanager.core.life.operation import SAVEPOINT
from jobmanager.core.life.overdue import RunnerLimits, RunnerTimes, overdue
from jobmanager.services import changes, checkpoints, jobs, runners
from jobmanager.services.clock import Clock
from jobmanager.services.ports.runners import Launcher, Runner
from jobmanager.services.ports.unit_of_work import UnitsOfWork
from jobmanager.services.start_progress import StartProgress

LINGER = timedelta(seconds=20)
"""How long a runner may take to exit after its attempt has ended."""


class Reaper:
    def __init__(
        self,
        units: UnitsOfWork,
        launcher: Launcher,
        clock: Clock,
        limits: RunnerLimits,
        starts: StartProgress,
    ) -> None:
        self._units = units
        self._launcher = launcher
        self._clock = clock
        self._limits = limits
        self._starts = starts
        self._listening_since = clock()

    async def run_once(self) -> None:
        now = self._clock()
        async with self._units() as uow:
            expired = await uow.checkpoints.expired(now)
            restarts = await uow.jobs.restart_due(now)
            overdue = await uow.attempts.grace_ended(now)
            at_work = await uow.runners.at_work()
            under_way = await uow.operations.changes_under_way()
        for job_id, number in expired:
            await checkpoints.expire(self._units(), job_id, number, now)
        for job_id in restarts:
            await jobs.restart_due(self._units(), job_id, now)
        for job_id, attempt in overdue:
            await runners.grace_ended(self._units(), job_id, attempt, now)
        for operation in under_way:
            if operation.operation.phase != SAVEPOINT:  # which has a deadline of its own
                await changes.overdue(self._units(), operation, now)
        for one in at_work.values():
            await self._look_after(one.runner, one.attempt, now)

    def failed(self) -> None:
        """Restart the measuring of silence: heartbeats could not be received during the failure."""
        self._listening_since = self._clock()

    async def _look_after(self, runner: Runner, attempt: Attempt, now: datetime) -> None:
        if attempt.ended_at is not None:
            stays_for = KEEP_PAUSED_RUNNER if attempt.keeps_runner else timedelta()
            await self._see_off(runner, now - attempt.ended_at - stays_for, now)
            return
        moved_at = self._starts.moved_at(runner.id)
        heard = RunnerTimes(
            runner.launched_at, runner.heartbeat_at, moved_at, self._listening_since
        )
        if late := overdue(attempt, heard, self._limits, now):
            await runners.overdue(self._units(), runner, late)

    async def _see_off(self, runner: Runner, ended_ago: timedelta, now: datetime) -> None:
        """End a runner whose attempt has ended, if it does not exit by itself."""
        if runner.host != self._launcher.host():
            # until then it may write where nothing can be fenced
            rests_at = runner.rests_at(self._listening_since)
            is_over = rests_at is None or rests_at <= now
            if is_over and ended_ago > LINGER + self._limits.heartbeat:
                await runners.given_up(self._units(), runner.id, now)
        elif ended_ago > LINGER and runner.pid is not None:
            await self._launcher.kill(runner)
