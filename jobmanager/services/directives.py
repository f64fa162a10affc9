"""Turns an effect for a runner into the directive that the runner fetches."""

import asyncio
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import assert_never
from uuid import UUID

from jobmanager.core.artifact import UploadLimits
from jobmanager.core.durations import milliseconds
from jobmanager.core.graph.connector_requirements import required_packages
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.ids import AttemptNumber, JobId
from jobmanager.core.life import effects
from jobmanager.core.life.records import StoredJob
from jobmanager.core.paths.allowed_paths import PathRules
from jobmanager.core.runner_sharing import Sharing
from jobmanager.core.snapshots.layout import job_directory
from jobmanager.core.snapshots.storage_uri import below
from jobmanager.files.connector_shelf import ConnectorShelf
from jobmanager.protocol import messages
from jobmanager.services.ports.outbox import OutboxEntry
from jobmanager.services.ports.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Where this server's jobs run: Spark master, storage and data root."""

    spark_master: str
    storage: str
    data_root: str
    checkpoints: str | None = None
    """Root of pools and checkpoints, a URI; None: they are in `storage`."""
    uploads: UploadLimits = field(default_factory=UploadLimits)
    paths: PathRules | None = None
    """What clients may name; None: anything."""
    connectors: ConnectorShelf | None = None
    """The connector packages that are installed; None: nobody looks."""
    secrets_dir: str | None = None
    """Where runners find the files of secrets, a file: URI."""
    secrets_command: str | None = None
    shared_jobs: int = 0
    """How many jobs a shared process runs at the same time; 0: there are no shared processes."""

    @property
    def sharing(self) -> Sharing:
        return Sharing(self.shared_jobs, self.spark_master)

    @property
    def path_roots(self) -> messages.PathRoots | None:
        """The same for those who do the work, and look again before they read or write."""
        if self.paths is None:
            return None
        graphs, snapshots = self.paths.graphs, self.paths.snapshots
        return messages.PathRoots(
            graphs=[str(root.location) for root in graphs.roots],
            snapshots=[str(root.location) for root in snapshots.roots],
        )

    async def jars_for(self, graph: JobGraph) -> list[messages.ConnectorJar]:
        """The jars that the runner of a job needs."""
        shelf, needed = self.connectors, required_packages(graph)
        if shelf is None or not needed:
            return []
        found = await asyncio.to_thread(shelf.jars_of, needed)
        return [messages.ConnectorJar(path=str(one.path), sha256=one.sha256) for one in found]

    def checkpoints_of(self, job_id: JobId) -> str:
        """Return the URI that the locations in this job's manifests are relative to."""
        return below(self.checkpoints or self.storage, job_directory(job_id))


async def directive(
    uow: UnitOfWork,
    entry: OutboxEntry,
    attempt: AttemptNumber,
    settings: RunSettings,
    attempt_token: str | None,
    now: datetime,
) -> messages.Directive:
    return messages.Directive(
        id=entry.id,
        job=entry.job_id,
        attempt=attempt,
        body=await _body(uow, entry, settings, attempt_token, now),
    )


async def _body(
    uow: UnitOfWork,
    entry: OutboxEntry,
    settings: RunSettings,
    attempt_token: str | None,
    now: datetime,
) -> messages.DirectiveBody:
    effect = entry.effect
    match effect:
        case effects.StartAttempt():
            stored = await uow.jobs.get(entry.job_id)
            runner = await uow.runners.of_attempt(entry.job_id, effect.attempt)
            fence_after = runner.fence_after if runner is not None else None
            return await _run(uow, stored, settings, attempt_token, fence_after)
        case effects.SendBarrier():
            savepoint = None
            if effect.savepoint is not None and effect.directory is not None:
                savepoint = _target(effect.savepoint, effect.directory)
            return messages.Barrier(
                checkpoint=effect.checkpoint,
                expires_at=effect.expires_at,
                time_left_ms=_time_left_ms(effect.expires_at, now),
                savepoint=savepoint,
                awaits_new_batch=effect.awaits_new_batch,
            )
        case effects.StopAttempt():
            return messages.Stop(
                checkpoint=effect.checkpoint,
                expires_at=effect.expires_at,
                time_left_ms=_time_left_ms(effect.expires_at, now),
                savepoint=_target(effect.savepoint, effect.directory),
                drain=effect.drain,
                keep_runner=effect.keep_runner,
            )
        case effects.AnnounceCompletion():
            return messages.CheckpointCompleted(checkpoint=effect.checkpoint)
        case effects.WithdrawBarrier():
            return messages.CheckpointAborted(checkpoint=effect.checkpoint, reason=effect.reason)
        case effects.CancelAttempt():
            return messages.Cancel(grace_ms=milliseconds(effect.grace))
        case effects.PauseAttempt():
            return messages.Cancel(
                grace_ms=milliseconds(effect.grace), keep_runner_ms=milliseconds(effect.keep_for)
            )
        case effects.ReleaseRunner():
            return messages.Exit(reason="the attempt has ended")
        case (
            effects.LaunchAttempt()
            | effects.KillRunner()
            | effects.DiscardCheckpoint()
            | effects.DiscardAttempts()
            | effects.DisposeSavepoint()
            | effects.LetRestorePointGo()
        ):
            raise AssertionError(f"{effect} is not for a runner")
        case _:
            assert_never(effect)


async def _run(
    uow: UnitOfWork,
    stored: StoredJob,
    settings: RunSettings,
    attempt_token: str | None,
    fence_after: timedelta | None,
) -> messages.Run:
    restorable = await uow.checkpoints.restorable(stored.id)
    checkpoint = None
    if restorable:
        newest = (await uow.checkpoints.get(stored.id, restorable[-1])).checkpoint
        assert newest.stored is not None
        if newest.attempt >= stored.base_attempt:
            checkpoint = messages.CheckpointRef(
                number=newest.number, manifest=newest.stored.manifest
            )
    return messages.Run(
        token=attempt_token,
        graph=dict(stored.document),
        parallelism=stored.parallelism,
        spark_master=settings.spark_master,
        storage=settings.storage,
        checkpoints=settings.checkpoints,
        data_root=settings.data_root,
        allowed_paths=settings.path_roots,
        jars=await settings.jars_for(stored.graph),
        secrets_dir=settings.secrets_dir,
        secrets_command=settings.secrets_command,
        checkpoint=checkpoint,
        # a job with a checkpoint of its own never goes back to its restore point, which may be
        # deleted
        restore_point=_restore_point(stored) if checkpoint is None else None,
        base_attempt=stored.base_attempt,
        fence_after_ms=None if fence_after is None else milliseconds(fence_after),
    )


def _time_left_ms(expires_at: datetime, now: datetime) -> int:
    return max(0, milliseconds(expires_at - now))


def _target(savepoint: str, directory: str) -> messages.SavepointTarget:
    return messages.SavepointTarget(id=UUID(hex=savepoint), directory=directory)


def _restore_point(stored: StoredJob) -> messages.RestorePointMessage | None:
    point = stored.restore_point
    if point is None:
        return None
    return messages.RestorePointMessage(
        root=point.root,
        manifest=point.manifest,
        name=point.name,
        allow_non_restored_state=point.allow_non_restored_state,
    )
