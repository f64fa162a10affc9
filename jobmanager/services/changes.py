"""Use cases that change a running job: rescale and upgrade.

Each is one durable operation: a savepoint between two batches, the end of the attempt, and a new
attempt that continues from the savepoint. `core.life` advances the operation as the attempts
report, and rolls it back when an attempt fails. An upgrade that changes only `meta` stops nothing.
"""

from datetime import datetime
from uuid import uuid4

from jobmanager.core.errors import UpgradeRefused
from jobmanager.core.graph import graph_document
from jobmanager.core.ids import JobId, OperationId, SavepointId
from jobmanager.core.life.change import Change, Revision
from jobmanager.core.life.events import OperationOverdue, RescaleRequested, UpgradeRequested
from jobmanager.core.life.operation import OperationKind
from jobmanager.core.life.records import StoredOperation
from jobmanager.core.life.request_rules import check_repetition
from jobmanager.core.life.revision import WantedRevision, revision_of, upgraded
from jobmanager.core.snapshots.upgrade import UpgradePlan, Verdict, plan_upgrade
from jobmanager.services import artifacts, lives
from jobmanager.services.ports.inspection import Trials
from jobmanager.services.ports.unit_of_work import UnitOfWork


async def rescale(
    uow: UnitOfWork,
    job_id: JobId,
    operation_id: OperationId,
    parallelism: int,
    target: str,
    now: datetime,
) -> StoredOperation:
    """Start a rescale to another parallelism. A repeated call with the same id changes nothing."""
    async with uow:
        job = await uow.jobs.get_for_update(job_id)
        known = await uow.operations.get(operation_id)
        if known is not None:
            wanted = Revision(job.revision, job.document, parallelism)
            check_repetition(known, job_id, OperationKind.RESCALE, wanted)
            return known
        savepoint = SavepointId(uuid4())
        event = RescaleRequested(now, operation_id, savepoint, target, parallelism)
        happened = await lives.move(uow, job_id, event)
        await uow.commit()
    return happened.life.operations[operation_id]


async def upgrade(
    uow: UnitOfWork,
    job_id: JobId,
    operation_id: OperationId,
    request: WantedRevision,
    target: str,
    now: datetime,
) -> StoredOperation:
    """Start an upgrade to another graph. A repeated call with the same id changes nothing."""
    async with uow:
        wanted = upgraded(await uow.jobs.get_for_update(job_id), request)
        known = await uow.operations.get(operation_id)
        if known is not None:
            check_repetition(known, job_id, OperationKind.UPGRADE, wanted)
            return known
        await artifacts.check(uow, graph_document.parse(request.document))
        event = UpgradeRequested(
            at=now,
            id=operation_id,
            savepoint=SavepointId(uuid4()),
            target=target,
            document=request.document,
            parallelism=request.parallelism,
            allow_non_restored_state=request.allow_non_restored_state,
        )
        happened = await lives.move(uow, job_id, event)
        await uow.commit()
    return happened.life.operations[operation_id]


async def plan(
    uow: UnitOfWork, trials: Trials, job_id: JobId, request: WantedRevision
) -> UpgradePlan:
    """Return what an upgrade would do. Spark tries the graph on a copy of the newest checkpoint."""
    async with uow:
        job = await uow.jobs.get(job_id)
        wanted = upgraded(job, request)
        await artifacts.check(uow, graph_document.parse(wanted.document))
    change = Change(revision_of(job), wanted, request.allow_non_restored_state)
    found = plan_upgrade(change)
    if found.verdict is Verdict.IMPOSSIBLE:
        return found  # Spark would read the state of one vertex as that of another
    if not found.needs_restart:
        return found
    return plan_upgrade(change, await trials.judge(job_id, change))


def check(found: UpgradePlan) -> None:
    """Raise `UpgradeRefused` with every reason why the upgrade cannot be started."""
    if found.verdict is not Verdict.COMPATIBLE:
        raise UpgradeRefused("; ".join(found.reasons))


async def overdue(uow: UnitOfWork, operation: StoredOperation, now: datetime) -> None:
    """End the operation's wait if it has waited too long."""
    await lives.happen(uow, operation.job_id, OperationOverdue(now, operation.id))
