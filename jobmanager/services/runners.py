"""Use cases about runners: registration, heartbeats, reports, exits and silence."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import structlog
from pydantic import ValidationError

from jobmanager.core.errors import WrongRunnerToken
from jobmanager.core.ids import AttemptNumber, JobId, RunnerId
from jobmanager.core.life import attempt as attempts
from jobmanager.core.life.events import (
    AttemptNews,
    HeartbeatReceived,
    LaunchFailed,
    RunnerGivenUp,
    RunnerLeft,
)
from jobmanager.core.life.failure import Failure, FailureKind
from jobmanager.core.runner_reuse import obstacle
from jobmanager.protocol import messages
from jobmanager.services import lives
from jobmanager.services.ports.runners import Runner
from jobmanager.services.ports.unit_of_work import UnitOfWork

_log = structlog.get_logger(__name__)


async def register(
    uow: UnitOfWork, runner: Runner, hello: messages.RunnerHello, now: datetime
) -> None:
    async with uow:
        await uow.jobs.get_for_update(runner.job_id)
        token, runner = runner.token_hash, await uow.runners.get(runner.id)
        if runner.token_hash != token:
            # Another runner was launched in its place since its request began.
            raise WrongRunnerToken(f"runner {runner.id} was replaced by another process")
        await uow.runners.save(
            replace(
                runner,
                pid=runner.pid or hello.pid,
                registered_at=runner.registered_at or now,
                heartbeat_at=now,
                spark_version=hello.spark_version,
                protocol=hello.protocol,
                versions={
                    name: said
                    for name, said in (
                        ("python", hello.python_version),
                        ("headgate", hello.headgate_version),
                    )
                    if said
                },
            )
        )
        registered = AttemptNews(runner.attempt, attempts.RunnerRegistered(now))
        await lives.move(uow, runner.job_id, registered)
        await uow.commit()


async def heartbeat(
    uow: UnitOfWork, runner: Runner, beat: messages.Heartbeat, now: datetime
) -> None:
    """Record one heartbeat in a transaction of its own; `services.heartbeats` records many at
    once.
    """
    async with uow:
        runner = await _locked(uow, runner.id)
        spoken_of = None if beat.attempt is None else AttemptNumber(beat.attempt)
        event = HeartbeatReceived(now, runner.attempt, spoken_of, beat.regions)
        await lives.move(uow, runner.job_id, event)
        await uow.commit()


async def report(
    uow: UnitOfWork, runner: Runner, said: messages.AttemptReport, now: datetime
) -> bool:
    """Take a runner's report about its attempt. True: the attempt was superseded."""
    async with uow:
        if isinstance(said.body, messages.EndingReport):
            # before the step: that may give the runner its next attempt
            await uow.jobs.get_for_update(runner.job_id)
            await uow.runners.note_end(runner.id, AttemptNumber(said.attempt), now)
        happened = await lives.move(uow, runner.job_id, news_of(said, now))
        await uow.commit()
    assert happened.before is not None
    return happened.before.attempts[AttemptNumber(said.attempt)].attempt.is_superseded


async def exited(
    uow: UnitOfWork,
    runner_id: RunnerId,
    description: str,
    last_word: Mapping[str, Any] | None,
    now: datetime,
) -> None:
    """Handle the exit of a runner's process. The last report that the runner wrote to a file
    counts, if there is one that this server can read.
    """
    said = _last_report(runner_id, last_word) if last_word is not None else None
    async with uow:
        runner = await _locked(uow, runner_id)
        word = news_of(said, now) if said is not None else None
        event = RunnerLeft(now, runner.attempt, description, word)
        await lives.move(uow, runner.job_id, event)
        await uow.commit()


async def returned(
    uow: UnitOfWork, runner_id: RunnerId, attempt: AttemptNumber, description: str, now: datetime
) -> bool:
    """Record the exit of a runner whose process stays, to serve another runner. False: this process
    must not be used again, since the runner had other attempts or may have run users' code.
    """
    async with uow:
        runner = await _locked(uow, runner_id)
        if runner.exited_at is not None:  # recorded before, or somebody has given the runner up
            return runner.exit_description == description
        if runner.attempt != attempt:  # the runner was kept for another graph, perhaps
            return False
        job = await uow.jobs.get(runner.job_id)
        stored = await uow.attempts.get(runner.job_id, attempt)
        if not stored.attempt.status.is_terminal or obstacle(job.document, job.graph):
            return False
        await lives.move(uow, runner.job_id, RunnerLeft(now, attempt, description, None))
        await uow.commit()
        return True


def _last_report(
    runner_id: RunnerId, last_word: Mapping[str, Any]
) -> messages.AttemptReport | None:
    try:
        return messages.AttemptReport.received_value(last_word)
    except ValidationError as error:  # of a newer runner: the exit itself is what is known
        faults = [str(one["msg"]) for one in error.errors(include_input=False)]
        _log.warning("last report not readable", runner=str(runner_id), faults=faults)
        return None


async def overdue(
    uow: UnitOfWork, judged: Runner, late: attempts.RunnerWentSilent | attempts.StartTimedOut
) -> None:
    """Note what a runner did not do in time, unless a heartbeat came since it was judged."""
    async with uow:
        await uow.jobs.get_for_update(judged.job_id)
        runner = await uow.runners.get_for_update(judged.id)
        is_silence = isinstance(late, attempts.RunnerWentSilent)
        if runner.attempt != judged.attempt:
            return
        if is_silence and runner.heartbeat_at != judged.heartbeat_at:
            return
        await lives.move(uow, runner.job_id, AttemptNews(runner.attempt, late))
        await uow.commit()


async def given_up(uow: UnitOfWork, runner_id: RunnerId, now: datetime) -> None:
    """Give up a runner whose attempt has ended, and whose machine this server cannot look at."""
    async with uow:
        runner = await _locked(uow, runner_id)
        if runner.exited_at is None:
            event = RunnerGivenUp(now, runner.attempt, runner.host)
            await lives.move(uow, runner.job_id, event)
            await uow.commit()


async def grace_ended(
    uow: UnitOfWork, job_id: JobId, attempt: AttemptNumber, now: datetime
) -> None:
    await lives.happen(uow, job_id, AttemptNews(attempt, attempts.GraceEnded(now)))


async def launch_failed(
    uow: UnitOfWork, job_id: JobId, attempt: AttemptNumber, error: str, now: datetime
) -> None:
    await lives.happen(uow, job_id, LaunchFailed(now, attempt, error))


async def _locked(uow: UnitOfWork, runner_id: RunnerId) -> Runner:
    """Return the runner, read under its job's lock: a rescale or upgrade gives the runner another
    attempt.
    """
    await uow.jobs.get_for_update((await uow.runners.get(runner_id)).job_id)
    return await uow.runners.get(runner_id)


def news_of(said: messages.AttemptReport, now: datetime) -> AttemptNews:
    return AttemptNews(AttemptNumber(said.attempt), event_of(said, now))


def event_of(said: messages.AttemptReport, now: datetime) -> attempts.AttemptEvent:
    """Make the event of a runner's report, with the time of the server's clock, not the
    runner's.
    """
    match said.body:
        case messages.AttemptPrepared(repartitioned=regions):
            done = [
                f"{one.region} from {one.from_parallelism} to {one.to_parallelism} state "
                f"partitions in {one.duration_ms} ms"
                for one in regions
            ]
            return attempts.StatePrepared(now, "; ".join(done) or "no state to repartition")
        case messages.AttemptRunning(restored=restored):
            return attempts.QueriesStarted(now, restored)
        case messages.AttemptInputEnded():
            return attempts.InputEnded(now)
        case messages.AttemptFinishedReport():
            return attempts.AttemptFinished(now)
        case messages.AttemptStoppedReport(savepoint=savepoint):
            return attempts.AttemptStopped(now, f"stopped with savepoint {savepoint.hex}")
        case messages.AttemptCancelledReport():
            return attempts.AttemptCancelled(now)
        case messages.AttemptFailedReport(failure=failure):
            return attempts.AttemptFailed(
                now,
                Failure(
                    FailureKind(failure.kind),
                    failure.message,
                    failure.stack,
                    failure.is_restartable,
                    failure.region,
                ),
            )
