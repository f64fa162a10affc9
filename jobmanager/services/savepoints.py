"""Use cases about savepoints: trigger, stop with a savepoint, label, verify, dispose."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import uuid4

from jobmanager.core.errors import InvalidLabels, NothingToVerify
from jobmanager.core.ids import JobId, OperationId, SavepointId
from jobmanager.core.life import disposal
from jobmanager.core.life.effects import DisposeSavepoint
from jobmanager.core.life.events import SavepointRequested
from jobmanager.core.life.operation import OperationKind
from jobmanager.core.life.records import Savepoint, StoredOperation
from jobmanager.core.life.request_rules import check_repetition
from jobmanager.core.life.savepoint import SavepointStatus, fault_of_labels
from jobmanager.core.snapshots.layout import MANIFEST
from jobmanager.core.snapshots.records import Verification
from jobmanager.services import lives
from jobmanager.services.ports.storage import SnapshotStorage
from jobmanager.services.ports.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class TakeSavepoint:
    """A client's request for a savepoint. A request with the same id is a repetition."""

    id: OperationId
    kind: OperationKind
    target: str
    """The directory, a URI, in which a directory for the savepoint is made."""
    drains: bool = False


async def trigger(
    uow: UnitOfWork, job_id: JobId, request: TakeSavepoint, now: datetime
) -> StoredOperation:
    async with uow:
        await uow.jobs.get_for_update(job_id)
        known = await uow.operations.get(request.id)
        if known is not None:
            check_repetition(known, job_id, request.kind)
            return known
        event = SavepointRequested(
            at=now,
            id=request.id,
            savepoint=SavepointId(uuid4()),
            kind=request.kind,
            target=request.target,
            drains=request.drains,
        )
        happened = await lives.move(uow, job_id, event)
        await uow.commit()
    return happened.life.operations[request.id]


async def label(
    uow: UnitOfWork, savepoint_id: SavepointId, labels: Mapping[str, str | None]
) -> Savepoint:
    """Add and change labels; None removes a label. Raises `InvalidLabels`."""
    async with uow:
        savepoint = await uow.savepoints.get(savepoint_id)
        kept = {k: v for k, v in {**savepoint.labels, **labels}.items() if v is not None}
        if fault := fault_of_labels(kept):
            raise InvalidLabels(fault)
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
    """Dispose of a savepoint; a repeated call changes nothing."""
    async with uow:
        savepoint = await uow.savepoints.get(savepoint_id)
        job_id = savepoint.job_id
        if (
            job_id is not None
        ):  # under this lock no job that starts from the savepoint can be accepted
            await uow.jobs.get_for_update(job_id)
            savepoint = await uow.savepoints.get(savepoint_id)
        else:
            await uow.savepoints.lock_place(savepoint.directory)
            savepoint = await uow.savepoints.get(savepoint_id)
        if savepoint.status is SavepointStatus.DISPOSED:
            return savepoint
        under_way = await uow.operations.under_way(job_id) if job_id else None
        users = await uow.jobs.started_from(savepoint.directory)
        savepoint = disposal.disposed(savepoint, under_way, users, now)
        await uow.savepoints.save(savepoint)
        if job_id is None:
            # An outbox belongs to a job. Files deleted before the commit are deleted again after a
            # crash, since the row still says that the savepoint exists.
            await storage.dispose_savepoint(savepoint.directory)
        else:
            await uow.outbox.add(job_id, [DisposeSavepoint(savepoint.directory)], now)
        await uow.commit()
    return savepoint
