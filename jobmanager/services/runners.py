"""Use cases about runners: what they say, what they are told, and what their silence means."""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from jobmanager.core.errors import WrongRunnerToken
from jobmanager.core.ids import AttemptNumber, JobId, RunnerId
from jobmanager.core.life import attempt as attempts
from jobmanager.core.life.failure import Failure, FailureKind
from jobmanager.core.life.records import StoredJob
from jobmanager.protocol import messages
from jobmanager.services import lifecycle
from jobmanager.services.ports.runners import Runner
from jobmanager.services.ports.unit_of_work import UnitOfWork


def token_hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


async def authenticate(uow: UnitOfWork, runner_id: RunnerId, token: str) -> Runner:
    async with uow:
        runner = await uow.runners.get(runner_id)
    if not hmac.compare_digest(runner.token_hash, token_hash(token)):
        raise WrongRunnerToken(f"that is not the token of runner {runner_id}")
    return runner


async def register(
    uow: UnitOfWork, runner: Runner, hello: messages.RunnerHello, now: datetime
) -> None:
    async with uow:
        stored = await uow.jobs.get_for_update(runner.job_id)
        token, runner = runner.token_hash, await uow.runners.get(runner.id)
        if runner.token_hash != token:
            # Between its first words and now another was launched in its place.
            raise WrongRunnerToken(f"another process is runner {runner.id} by now")
        await uow.runners.save(
            replace(
                runner,
                pid=runner.pid or hello.pid,
                registered_at=runner.registered_at or now,
                heartbeat_at=now,
                spark_version=hello.spark_version,
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
        registered = attempts.RunnerRegistered(now)
        await lifecycle.move_attempt(uow, stored, runner.attempt, registered, now)
        await uow.commit()


async def heartbeat(
    uow: UnitOfWork, runner: Runner, beat: messages.Heartbeat, now: datetime
) -> bool:
    """Notes that the runner lives and how far it is. True: its attempt was superseded."""
    async with uow:
        runner = await uow.runners.get(runner.id)
        attempt = (await uow.attempts.get(runner.job_id, runner.attempt)).attempt
        if attempt.is_superseded:
            return True  # it changes nothing any more, not even when it was last heard
        memory = beat.memory.model_dump(mode="json") if beat.memory else None
        await uow.runners.note_heartbeat(runner.id, now, memory)
        if beat.attempt != runner.attempt:
            # between two attempts of a job: the one it speaks of has ended
            await uow.commit()
            return False
        if not attempt.status.is_terminal:
            await uow.attempts.note_progress(runner.job_id, runner.attempt, beat.regions, now)
        if attempt.status is attempts.AttemptStatus.STARTING and beat.regions:
            # Its report was lost, say because no server was there: regions only have
            # progress once their queries have started.
            stored = await uow.jobs.get_for_update(runner.job_id)
            started = attempts.QueriesStarted(now)
            await lifecycle.move_attempt(uow, stored, runner.attempt, started, now)
        await uow.commit()
    return False


async def report(
    uow: UnitOfWork, runner: Runner, said: messages.AttemptReport, now: datetime
) -> bool:
    """Takes what a runner says of its attempt. True: nobody waits for it any more."""
    number = AttemptNumber(said.attempt)
    async with uow:
        stored = await uow.jobs.get_for_update(runner.job_id)
        before = (await uow.attempts.get(runner.job_id, number)).attempt
        if isinstance(said.body, messages.AttemptRunning) and not before.status.is_terminal:
            await uow.attempts.note_restored(runner.job_id, number, said.body.restored)
        await lifecycle.move_attempt(uow, stored, number, event_of(said, now), now)
        await uow.commit()
    return before.is_superseded


async def exited(
    uow: UnitOfWork,
    runner_id: RunnerId,
    description: str,
    last_word: Mapping[str, Any] | None,
    now: datetime,
) -> None:
    """The runner's process is gone. What it wrote as its last word counts, if it did."""
    async with uow:
        stored, runner = await _locked(uow, runner_id)
        await uow.runners.save(replace(runner, exited_at=now, exit_description=description))
        if last_word is not None:
            said = messages.AttemptReport.model_validate(last_word)
            number = AttemptNumber(said.attempt)
            stored = await lifecycle.move_attempt(uow, stored, number, event_of(said, now), now)
        gone = attempts.RunnerExited(now, description)
        await lifecycle.move_attempt(uow, stored, runner.attempt, gone, now)
        await uow.outbox.forget(runner.job_id, runner.attempt)
        await uow.commit()


async def went_silent(
    uow: UnitOfWork, runner_id: RunnerId, silence: timedelta, now: datetime
) -> None:
    async with uow:
        stored, runner = await _locked(uow, runner_id)
        silent = attempts.RunnerWentSilent(now, silence)
        await lifecycle.move_attempt(uow, stored, runner.attempt, silent, now)
        await uow.commit()


async def given_up(uow: UnitOfWork, runner_id: RunnerId, now: datetime) -> None:
    """Its attempt has ended, and it is on a machine that we cannot look at. Whether it is
    there or not, it can change nothing, and ends when it is told so.
    """
    async with uow:
        _, runner = await _locked(uow, runner_id)
        attempt = (await uow.attempts.get(runner.job_id, runner.attempt)).attempt
        if runner.exited_at is not None or not attempt.status.is_terminal:
            return  # it has got another attempt meanwhile, or is known to be gone
        description = f"taken to be gone: {runner.host} is out of reach"
        await uow.runners.save(replace(runner, exited_at=now, exit_description=description))
        await uow.outbox.forget(runner.job_id, runner.attempt)
        await uow.commit()


async def grace_ended(
    uow: UnitOfWork, job_id: JobId, attempt: AttemptNumber, now: datetime
) -> None:
    async with uow:
        stored = await uow.jobs.get_for_update(job_id)
        await lifecycle.move_attempt(uow, stored, attempt, attempts.GraceEnded(now), now)
        await uow.commit()


async def launch_failed(
    uow: UnitOfWork, job_id: JobId, attempt: AttemptNumber, error: str, now: datetime
) -> None:
    async with uow:
        stored = await uow.jobs.get_for_update(job_id)
        failure = Failure(FailureKind.INFRASTRUCTURE, f"no runner could be started: {error}")
        event = attempts.AttemptFailed(now, failure)
        await lifecycle.move_attempt(uow, stored, attempt, event, now)
        await uow.commit()


async def _locked(uow: UnitOfWork, runner_id: RunnerId) -> tuple[StoredJob, Runner]:
    """The runner's job, locked, and the runner as it is under the lock: a job that changes
    gives its runner another attempt.
    """
    stored = await uow.jobs.get_for_update((await uow.runners.get(runner_id)).job_id)
    return stored, await uow.runners.get(runner_id)


def event_of(said: messages.AttemptReport, now: datetime) -> attempts.AttemptEvent:
    """What a runner said, as the attempt machine hears it. Our clock, not the runner's."""
    match said.body:
        case messages.AttemptPrepared(repartitioned=regions):
            done = [
                f"{one.region} from {one.from_parallelism} to {one.to_parallelism} state "
                f"partitions in {one.duration_ms} ms"
                for one in regions
            ]
            return attempts.StatePrepared(now, "; ".join(done) or "no state to repartition")
        case messages.AttemptRunning():
            return attempts.QueriesStarted(now)
        case messages.AttemptFinished():
            return attempts.AttemptFinished(now)
        case messages.AttemptStopped(savepoint=savepoint):
            return attempts.AttemptStopped(now, f"stopped with savepoint {savepoint.hex}")
        case messages.AttemptCancelled():
            return attempts.AttemptCancelled(now)
        case messages.AttemptFailed(failure=failure):
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
