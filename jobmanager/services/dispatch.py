"""Carries out the effects that are for the JobManager itself. Each may be carried out twice."""

import secrets
from datetime import datetime, timedelta
from typing import assert_never
from uuid import uuid4

from jobmanager.core.graph.connector_requirements import required_packages
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.graph.sinks import unfenced_sinks
from jobmanager.core.ids import AttemptNumber, JobId, RunnerId
from jobmanager.core.life.effects import (
    DiscardAttempts,
    DiscardCheckpoint,
    DisposeSavepoint,
    ForJobManager,
    KillRunner,
    LaunchAttempt,
    LetRestorePointGo,
)
from jobmanager.core.life.records import HistoryEntry, StoredJob
from jobmanager.core.runner_reuse import obstacle as reuse_obstacle
from jobmanager.core.runner_reuse import static_settings
from jobmanager.services import restore_points, runners
from jobmanager.services.ports.runners import Launched, Launcher, Runner
from jobmanager.services.ports.storage import SnapshotStorage
from jobmanager.services.ports.unit_of_work import UnitOfWork, UnitsOfWork
from jobmanager.services.runner_tokens import token_hash

_NEEDED_FOR = timedelta(seconds=30)
"""How soon it is looked again whether a restore point is still needed."""


class EffectMustWait(Exception):
    """An effect cannot be carried out yet, and nothing is wrong about that."""

    def __init__(self, until: datetime, why: str) -> None:
        super().__init__(why)
        self.until = until
        """When it can be at the latest."""


class LaunchMustWait(EffectMustWait):
    """An earlier runner may still write to a sink that cannot be fenced."""

    def __init__(self, attempt: AttemptNumber, until: datetime, why: str) -> None:
        super().__init__(until, why)
        self.attempt = attempt


class Dispatcher:
    def __init__(
        self,
        units: UnitsOfWork,
        launcher: Launcher,
        storage: SnapshotStorage,
        fence_after: timedelta,
        listening_since: datetime,
    ) -> None:
        self._units = units
        self._launcher = launcher
        self._storage = storage
        self._fence_after = fence_after
        """What runners are told that are launched from now on."""
        self._listening_since = listening_since

    async def carry_out(self, job_id: JobId, effect: ForJobManager, now: datetime) -> None:
        match effect:
            case LaunchAttempt():
                await self._launch(job_id, effect.attempt, now)
            case KillRunner():
                await self._kill(job_id, effect, now)
            case DiscardCheckpoint():
                await self._storage.discard_checkpoint(
                    job_id, effect.checkpoint, was_completed=effect.was_completed
                )
            case DiscardAttempts():
                await self._storage.discard_attempts(job_id, effect.before)
            case DisposeSavepoint():
                await self._storage.dispose_savepoint(effect.directory)
            case LetRestorePointGo():
                users = await restore_points.let_go(self._units(), job_id, effect, now)
                if users:
                    why = f"job {users[0].hex} was started from it, and still needs it"
                    raise EffectMustWait(now + _NEEDED_FOR, why)
            case _:
                assert_never(effect)

    async def _launch(self, job_id: JobId, attempt: AttemptNumber, now: datetime) -> None:
        """Launch a runner. It is recorded before its process starts, so no runner is unknown.
        Raises `LaunchMustWait`.
        """
        secret = secrets.token_urlsafe(32)
        await self._launcher.await_returning()
        async with self._units() as uow:
            # With the job's lock, because a runner may be registering at this moment.
            job = await uow.jobs.get_for_update(job_id)
            known = await uow.runners.of_attempt(job_id, attempt)
            stored = await uow.attempts.get(job_id, attempt)
            if stored.attempt.status.is_terminal or (known and known.pid is not None):
                return
            await self._check_earlier_runners(uow, job, attempt, now)
            # An earlier leader may have started it, and died before it could record that.
            launched = await self._launcher.find(known) if known else None
            if known is None or launched is None:
                # A new secret: a process that a replaced leader still starts is refused when it
                # registers.
                runner_id, is_warm, is_shared = self._place(known, job.graph)
                runner = self._runner(runner_id, job_id, attempt, secret, now, is_shared=is_shared)
                await (uow.runners.save(runner) if known else uow.runners.add(runner))
                how = launch_description(job.graph, runner, is_warm=is_warm)
                await uow.history.add(job_id, HistoryEntry(now, "runner_launched", how, attempt))
                await uow.commit()
            else:
                runner = known
        if launched is None:
            is_alone = not runner.shares_process
            if is_alone and reuse_obstacle(job.document, job.graph) is None:
                self._launcher.expect_return(runner.id, attempt)
            launched = await self._launcher.launch(runner.id, secret)
        await self._note_process(runner.id, launched)

    def _place(self, known: Runner | None, graph: JobGraph) -> tuple[RunnerId, bool, bool]:
        """Reserve a process for a runner. Return the runner's id, and whether the process waits
        for it already, and whether other runners share the process.
        """
        if graph.execution.is_shared:
            runner_id = known.id if known else RunnerId(uuid4())
            if self._launcher.share(runner_id):
                return runner_id, False, True
        if known is not None:
            return known.id, False, False
        warm = None
        if not static_settings(graph):
            warm = self._launcher.reserve(required_packages(graph))
        return warm or RunnerId(uuid4()), warm is not None, False

    async def _check_earlier_runners(
        self, uow: UnitOfWork, job: StoredJob, attempt: AttemptNumber, now: datetime
    ) -> None:
        """With a sink that cannot be fenced, two runners must never be at work at the same time.
        Raises `LaunchMustWait`.
        """
        unfenced = unfenced_sinks(job.graph.vertices)
        if not unfenced:
            return
        for runner in await uow.runners.before(job.id, attempt):
            until = runner.rests_at(self._listening_since)
            if until is not None and until > now:
                sinks = ", ".join(repr(str(one.id)) for one in unfenced)
                raise LaunchMustWait(
                    attempt,
                    until,
                    f"attempt {attempt} waits for the end of runner {runner.id} of attempt "
                    f"{runner.attempt} on {runner.host}, until {until:%H:%M:%S} at the latest: "
                    f"it may still write to {sinks}, which cannot be fenced",
                )

    def _runner(
        self,
        runner_id: RunnerId,
        job_id: JobId,
        attempt: AttemptNumber,
        secret: str,
        now: datetime,
        *,
        is_shared: bool,
    ) -> Runner:
        return Runner(
            id=runner_id,
            job_id=job_id,
            attempt=attempt,
            token_hash=token_hash(secret),
            host=self._launcher.host(),
            log_path=self._launcher.log_path(runner_id),
            launched_at=now,
            fence_after=self._fence_after,
            process=self._launcher.process_of(runner_id),
            shares_process=is_shared,
        )

    async def _note_process(self, runner_id: RunnerId, launched: Launched) -> None:
        # If this fails because another JobManager leads by now, the process is left alone: the
        # new leader has found it, or has started another, and then it ends when it registers.
        async with self._units() as uow:
            await uow.runners.note_process(runner_id, launched)
            current = await uow.runners.get(runner_id)
            await uow.commit()
        await self._launcher.watch(current)

    async def _kill(self, job_id: JobId, effect: KillRunner, now: datetime) -> None:
        async with self._units() as uow:
            runner = await uow.runners.of_attempt(job_id, effect.attempt)
        if runner is None or runner.exited_at is not None:
            return
        await self._launcher.kill(runner)
        if runner.pid is None and runner.host == self._launcher.host():
            # its launch failed: no process is watched, and no other exit will be seen
            await runners.exited(self._units(), runner.id, "it was not started", None, now)


def launch_description(graph: JobGraph, runner: Runner | None = None, *, is_warm: bool) -> str:
    if runner is not None and runner.shares_process:
        return f"in the shared process {runner.process_id}"
    if runner is not None and runner.process is not None:
        return "on a warm runner, in a process that served a job before"
    apart = "this server has no shared processes; " if graph.execution.is_shared else ""
    return apart + _of_own_process(graph, is_warm=is_warm)


def _of_own_process(graph: JobGraph, *, is_warm: bool) -> str:
    if is_warm:
        return "on a warm runner"
    if static := static_settings(graph):
        return f"cold: {', '.join(static)} can be set only when Spark starts"
    if needs := required_packages(graph):
        return (
            f"cold: no warm runner with {', '.join(sorted(needs))} was available "
            "(headgate serve --connectors)"
        )
    return "cold: no warm runner was available"
