"""Turns an effect for a runner into the directive the runner fetches."""

from dataclasses import dataclass
from typing import assert_never

from jobmanager.core import effects
from jobmanager.core.durations import milliseconds
from jobmanager.protocol import messages
from jobmanager.services.ports import OutboxEntry, Runner, StoredJob, UnitOfWork


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Where and on what jobs of this server run."""

    spark_master: str
    storage: str
    data_root: str


async def directive(
    uow: UnitOfWork, entry: OutboxEntry, runner: Runner, settings: RunSettings
) -> messages.Directive:
    return messages.Directive(
        id=entry.id,
        job=entry.job_id,
        attempt=runner.attempt,
        body=await _body(uow, entry, settings),
    )


async def _body(
    uow: UnitOfWork, entry: OutboxEntry, settings: RunSettings
) -> messages.DirectiveBody:
    effect = entry.effect
    match effect:
        case effects.StartAttempt():
            stored = await uow.jobs.get(entry.job_id)
            return await _run(uow, stored, settings)
        case effects.SendBarrier():
            return messages.Barrier(checkpoint=effect.checkpoint, expires_at=effect.expires_at)
        case effects.AnnounceCompletion():
            return messages.CheckpointCompleted(checkpoint=effect.checkpoint)
        case effects.WithdrawBarrier():
            return messages.CheckpointAborted(checkpoint=effect.checkpoint, reason=effect.reason)
        case effects.CancelAttempt():
            return messages.Cancel(grace_ms=milliseconds(effect.grace))
        case effects.ReleaseRunner():
            return messages.Exit(reason="the attempt has ended")
        case (
            effects.LaunchAttempt()
            | effects.KillRunner()
            | effects.DiscardCheckpoint()
            | effects.DiscardAttempts()
        ):
            raise AssertionError(f"{effect} is not for a runner")
        case _:
            assert_never(effect)


async def _run(uow: UnitOfWork, stored: StoredJob, settings: RunSettings) -> messages.Run:
    restorable = await uow.checkpoints.restorable(stored.id)
    checkpoint = None
    if restorable:
        newest = (await uow.checkpoints.get(stored.id, restorable[-1])).checkpoint
        assert newest.stored is not None
        checkpoint = messages.CheckpointRef(number=newest.number, manifest=newest.stored.manifest)
    return messages.Run(
        graph=dict(stored.document),
        parallelism=stored.parallelism,
        spark_master=settings.spark_master,
        storage=settings.storage,
        data_root=settings.data_root,
        checkpoint=checkpoint,
    )
