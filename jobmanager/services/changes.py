"""Use cases that change how a running job runs: rescale and upgrade.

Each is one durable operation: a savepoint at a boundary, the end of the attempt,
another attempt that goes on from there. `services.operations` drives it on as the
attempts report, and takes it back when one fails; what hangs is found here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jobmanager.core.errors import (
    Fault,
    IdempotencyKeyReused,
    InvalidJobGraph,
    NothingToChange,
    UnsupportedRequest,
    UpgradeRefused,
)
from jobmanager.core.graph import graph_document
from jobmanager.core.ids import JobId, OperationId
from jobmanager.core.life.attempt import AttemptFailed
from jobmanager.core.life.change import Change, Revision
from jobmanager.core.life.failure import Failure, FailureKind
from jobmanager.core.life.operation import OperationKind
from jobmanager.core.life.records import StoredJob, StoredOperation
from jobmanager.core.snapshots.upgrade import UpgradePlan, Verdict, plan_upgrade
from jobmanager.services import artifacts, lifecycle, savepoints
from jobmanager.services.ports.inspection import Trials
from jobmanager.services.ports.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class UpgradeRequest:
    document: Mapping[str, Any]
    parallelism: int | None = None
    """None: what the graph says."""
    allow_non_restored_state: bool = False


async def rescale(
    uow: UnitOfWork,
    job_id: JobId,
    operation_id: OperationId,
    parallelism: int,
    target: str,
    now: datetime,
) -> StoredOperation:
    """Lets the job go on with another parallelism. Repeated with the same id it is the same."""
    async with uow:
        stored = await uow.jobs.get_for_update(job_id)
        before = revision_of(stored)
        after = Revision(before.number, before.document, parallelism)
        known = await _known(uow, job_id, operation_id, OperationKind.RESCALE, after)
        if known is not None:
            return known
        if fault := graph_document.parallelism_fault(parallelism, stored.graph.max_parallelism):
            raise InvalidJobGraph([Fault(None, "parallelism", fault)])
        if parallelism == stored.parallelism:
            raise NothingToChange(f"job {job_id.hex} has parallelism {parallelism} already")
        request = savepoints.Request(
            operation_id, OperationKind.RESCALE, target, change=Change(before, after)
        )
        operation = await savepoints.begin(uow, stored, request, now)
        await uow.commit()
    return operation


async def upgrade(
    uow: UnitOfWork,
    job_id: JobId,
    operation_id: OperationId,
    request: UpgradeRequest,
    target: str,
    now: datetime,
) -> StoredOperation:
    """Lets the job go on with another graph. Repeated with the same id it is the same."""
    async with uow:
        stored = await uow.jobs.get_for_update(job_id)
        after = upgraded(stored, request)
        known = await _known(uow, job_id, operation_id, OperationKind.UPGRADE, after)
        if known is not None:
            return known
        await artifacts.check(uow, graph_document.parse(request.document))
        before = revision_of(stored)
        change = Change(before, after, request.allow_non_restored_state)
        operation = await savepoints.begin(
            uow,
            stored,
            savepoints.Request(operation_id, OperationKind.UPGRADE, target, change=change),
            now,
        )
        await uow.commit()
    return operation


async def plan(
    uow: UnitOfWork, trials: Trials, job_id: JobId, request: UpgradeRequest
) -> UpgradePlan:
    """What an upgrade would do. Spark is asked on a copy of the newest checkpoint."""
    async with uow:
        stored = await uow.jobs.get(job_id)
        wanted = upgraded(stored, request)
        await artifacts.check(uow, graph_document.parse(wanted.document))
    change = Change(revision_of(stored), wanted, request.allow_non_restored_state)
    found = plan_upgrade(change)
    if found.verdict is Verdict.IMPOSSIBLE:
        return found  # Spark would be tried with the state of one vertex for another
    return plan_upgrade(change, await trials.judge(job_id, change))


def check(found: UpgradePlan) -> None:
    """Raises `UpgradeRefused` with every reason why the upgrade is not begun."""
    if found.verdict is not Verdict.COMPATIBLE:
        raise UpgradeRefused("; ".join(found.reasons))


def upgraded(stored: StoredJob, request: UpgradeRequest) -> Revision:
    """The revision that the request asks for. Raises what is wrong with it."""
    graph = graph_document.parse(request.document)
    parallelism = request.parallelism or graph.parallelism
    if fault := graph_document.parallelism_fault(parallelism, graph.max_parallelism):
        raise InvalidJobGraph([Fault(None, "parallelism", fault)])
    if graph.mode is not stored.graph.mode:
        raise UnsupportedRequest(
            f"the job is {stored.graph.mode} and the graph {graph.mode}: submit it as another job"
        )
    return Revision(stored.revision + 1, request.document, parallelism)


def revision_of(stored: StoredJob) -> Revision:
    return Revision(stored.revision, stored.document, stored.parallelism)


async def overdue(uow: UnitOfWork, operation: StoredOperation, now: datetime) -> None:
    """Ends the attempt that a change has waited for too long, which takes the change on or back."""
    async with uow:
        stored = await uow.jobs.get_for_update(operation.job_id)
        current = await uow.operations.under_way(operation.job_id)
        if current is None or current.id != operation.id:
            return
        phase = current.operation.phases[-1]
        waited = now - phase.started_at
        if waited <= stored.graph.checkpointing.timeout:
            return
        failure = Failure(
            FailureKind.INFRASTRUCTURE,
            f"{current.operation.kind} was in phase {phase.name} for "
            f"{waited.total_seconds():.0f} s, longer than the checkpoint timeout",
        )
        event = AttemptFailed(now, failure)
        await lifecycle.move_attempt(uow, stored, stored.job.attempt, event, now)
        await uow.commit()


async def _known(
    uow: UnitOfWork,
    job_id: JobId,
    operation_id: OperationId,
    kind: OperationKind,
    wanted: Revision,
) -> StoredOperation | None:
    known = await uow.operations.get(operation_id)
    if known is None:
        return None
    same = (known.job_id, known.operation.kind) == (job_id, kind) and known.change is not None
    after = known.change.after if known.change else None
    if not same or after is None:
        raise IdempotencyKeyReused(f"{operation_id.hex} is another request already")
    if (after.document, after.parallelism) != (wanted.document, wanted.parallelism):
        raise IdempotencyKeyReused(f"{operation_id.hex} was used for another {kind} already")
    return known
