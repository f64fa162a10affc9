"""Use cases about savepoints: trigger, stop with one, label, verify, dispose."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import uuid4

from jobmanager.core.errors import (
    IdempotencyKeyReused,
    JobNotRunning,
    NothingToVerify,
    SavepointInUse,
    StopUnderWay,
    UnsupportedRequest,
)
from jobmanager.core.graph.job_graph import Mode
from jobmanager.core.ids import JobId, OperationId, SavepointId
from jobmanager.core.life import operation as operations
from jobmanager.core.life.change import Change
from jobmanager.core.life.checkpoint import CheckpointKind, SavepointOrder
from jobmanager.core.life.effects import DisposeSavepoint
from jobmanager.core.life.job import JobStatus
from jobmanager.core.life.operation import OperationKind
from jobmanager.core.life.records import HistoryEntry, Savepoint, StoredJob, StoredOperation
from jobmanager.core.life.savepoint import SavepointStatus
from jobmanager.core.snapshots.layout import MANIFEST, savepoint_name
from jobmanager.core.snapshots.records import Verification
from jobmanager.core.snapshots.storage_uri import below
from jobmanager.services import checkpoints
from jobmanager.services.ports.storage import SnapshotStorage
from jobmanager.services.ports.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asks for. Repeated with the same id it is the same request."""

    id: OperationId
    kind: OperationKind
    target: str
    """The directory, a URI, in which the savepoint gets one of its own."""
    drains: bool = False
    change: Change | None = None
    """What a rescale or an upgrade is about."""


async def trigger(
    uow: UnitOfWork, job_id: JobId, request: Request, now: datetime
) -> StoredOperation:
    async with uow:
        stored = await uow.jobs.get_for_update(job_id)
        known = await uow.operations.get(request.id)
        if known is not None:
            if (known.job_id, known.operation.kind) != (job_id, request.kind):
                raise IdempotencyKeyReused(f"{request.id.hex} is another request already")
            return known
        operation = await begin(uow, stored, request, now)
        await uow.commit()
    return operation


async def begin(
    uow: UnitOfWork, stored: StoredJob, request: Request, now: datetime
) -> StoredOperation:
    """Writes the operation down, with its savepoint. The caller holds the lock and commits."""
    await _check(uow, stored)
    savepoint_id = SavepointId(uuid4())
    directory = below(request.target, savepoint_name(stored.id, savepoint_id))
    order = SavepointOrder(
        savepoint_id.hex,
        directory,
        stops=request.kind is not OperationKind.SAVEPOINT,
        drains=request.drains,
        keeps_runner=request.kind.is_change,
    )
    number = await checkpoints.trigger_one(uow, stored, CheckpointKind.SAVEPOINT, now, order)
    await uow.savepoints.add(
        Savepoint(
            id=savepoint_id,
            job_id=stored.id,
            checkpoint=number,
            directory=directory,
            status=SavepointStatus.IN_PROGRESS,
            created_at=now,
            parallelism=stored.parallelism,
            max_parallelism=stored.graph.max_parallelism,
            graph_revision=stored.revision,
            parent=stored.restore_point.name if stored.restore_point else None,
            labels={"taken_by": request.kind} if request.kind.is_change else {},
        )
    )
    operation = StoredOperation(
        request.id,
        stored.id,
        savepoint_id,
        operations.begin(request.kind, now),
        now,
        request.change,
    )
    await uow.operations.add(operation)
    await uow.history.add(
        stored.id,
        HistoryEntry(now, f"{request.kind}_requested", request.id.hex, stored.job.attempt),
    )
    return operation


async def label(
    uow: UnitOfWork, savepoint_id: SavepointId, labels: Mapping[str, str | None]
) -> Savepoint:
    """Adds and changes labels; None takes one away."""
    async with uow:
        savepoint = await uow.savepoints.get(savepoint_id)
        kept = {k: v for k, v in {**savepoint.labels, **labels}.items() if v is not None}
        savepoint = replace(savepoint, labels=kept)
        await uow.savepoints.save(savepoint)
        await uow.commit()
    return savepoint


async def verify(
    uow: UnitOfWork, storage: SnapshotStorage, savepoint_id: SavepointId
) -> Verification:
    async with uow:
        savepoint = await uow.savepoints.get(savepoint_id)
    if savepoint.status is not SavepointStatus.COMPLETED:
        raise NothingToVerify(f"savepoint {savepoint_id.hex} is {savepoint.status}")
    return await storage.verify_at(savepoint.directory, MANIFEST)


async def dispose(
    uow: UnitOfWork, storage: SnapshotStorage, savepoint_id: SavepointId, now: datetime
) -> Savepoint:
    """Lets a savepoint go. To do it again changes nothing."""
    async with uow:
        savepoint = await uow.savepoints.get(savepoint_id)
        if savepoint.status is SavepointStatus.DISPOSED:
            return savepoint
        if savepoint.status is not SavepointStatus.COMPLETED:
            raise SavepointInUse(
                f"savepoint {savepoint_id.hex} is {savepoint.status}: only a completed one can go"
            )
        job_id = savepoint.job_id
        under_way = await uow.operations.under_way(job_id) if job_id else None
        if under_way is not None and under_way.savepoint_id == savepoint_id:
            raise SavepointInUse(
                f"operation {under_way.id.hex} needs savepoint {savepoint_id.hex} until its end"
            )
        users = await uow.jobs.started_from(savepoint.directory)
        if users:
            raise SavepointInUse(
                f"job {users[0].hex} was started from savepoint {savepoint_id.hex} and still runs"
            )
        savepoint = replace(savepoint, status=SavepointStatus.DISPOSED, disposed_at=now)
        await uow.savepoints.save(savepoint)
        if job_id is None:
            # An outbox is of a job. What is deleted before the commit is deleted again after
            # a crash: the row still says that it is there.
            await storage.dispose_savepoint(savepoint.directory)
        else:
            await uow.outbox.add(job_id, [DisposeSavepoint(savepoint.directory)], now)
        await uow.commit()
    return savepoint


async def _check(uow: UnitOfWork, stored: StoredJob) -> None:
    if stored.graph.mode is Mode.BATCH:
        raise UnsupportedRequest("a batch job has no savepoints: it is run again as a whole")
    if stored.job.status is not JobStatus.RUNNING:
        raise JobNotRunning(
            f"job {stored.id.hex} is {stored.job.status}: only a running job takes savepoints"
        )
    under_way = await uow.operations.under_way(stored.id)
    if under_way is not None:
        doing = _DOING[under_way.operation.kind]
        raise StopUnderWay(
            f"job {stored.id.hex} is being {doing} already, by operation {under_way.id.hex}: "
            "wait for its end"
        )


_DOING = {
    OperationKind.STOP: "stopped",
    OperationKind.CANCEL: "cancelled",
    OperationKind.RESCALE: "rescaled",
    OperationKind.UPGRADE: "upgraded",
}
