"""Flink's routes about savepoints: trigger, stop with a savepoint, ask for the outcome, dispose."""

from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from jobmanager.api.context import SUBJECT, Ctx, JobIdPath, Uow
from jobmanager.api.flink.failure_causes import failure_cause
from jobmanager.api.flink.triggers import trigger_of
from jobmanager.api.problems import FLINK
from jobmanager.api.savepoint_targets import target_of
from jobmanager.api.shapes.flink.operations import RequestAccepted, TriggerStatus
from jobmanager.core.errors import OperationNotFound, SavepointNotFound
from jobmanager.core.ids import JobId, SavepointId
from jobmanager.core.life.operation import OperationKind, OperationStatus
from jobmanager.core.life.records import Savepoint, StoredOperation
from jobmanager.core.life.savepoint import SavepointStatus
from jobmanager.services import savepoints
from jobmanager.services.ports.unit_of_work import UnitOfWork

router = APIRouter(tags=[FLINK])
_FAILED = "org.apache.flink.runtime.checkpoint.CheckpointException"


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    formatType: str | None = None  # noqa: N815 - Flink's name
    triggerId: str | None = None  # noqa: N815 - Flink's name


class SavepointRequest(_Body):
    target_directory: str | None = Field(None, alias="target-directory")
    cancel_job: bool = Field(False, alias="cancel-job")


class StopRequest(_Body):
    targetDirectory: str | None = None  # noqa: N815 - Flink's name
    drain: bool = False


class DisposalRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    savepoint_path: str = Field(alias="savepoint-path")


@router.post(
    "/jobs/{jobid}/savepoints",
    status_code=HTTPStatus.ACCEPTED,
    summary="Take a savepoint",
    response_model=RequestAccepted,
)
async def trigger(
    job_id: JobIdPath, context: Ctx, uow: Uow, body: SavepointRequest
) -> dict[str, Any]:
    kind = OperationKind.CANCEL if body.cancel_job else OperationKind.SAVEPOINT
    request = savepoints.TakeSavepoint(
        trigger_of(body.triggerId), kind, await target_of(context, body.target_directory)
    )
    return {"request-id": await _ask(uow, job_id, request, context)}


@router.post(
    "/jobs/{jobid}/stop",
    status_code=HTTPStatus.ACCEPTED,
    summary="Stop with a savepoint",
    response_model=RequestAccepted,
)
async def stop(job_id: JobIdPath, context: Ctx, uow: Uow, body: StopRequest) -> dict[str, Any]:
    request = savepoints.TakeSavepoint(
        trigger_of(body.triggerId),
        OperationKind.STOP,
        await target_of(context, body.targetDirectory),
        body.drain,
    )
    return {"request-id": await _ask(uow, job_id, request, context)}


@router.get(
    "/jobs/{jobid}/savepoints/{triggerid}",
    summary="How a savepoint went",
    response_model=TriggerStatus,
    response_model_exclude_unset=True,
)
async def status(job_id: JobIdPath, triggerid: str, uow: Uow) -> dict[str, Any]:
    async with uow:
        await uow.jobs.get(job_id)
        found = await uow.operations.get(trigger_of(triggerid))
        if found is None or found.job_id != job_id or found.savepoint_id is None:
            raise OperationNotFound(
                f"There is no savepoint operation with triggerId={triggerid} for job {job_id.hex}."
            )
        savepoint = await uow.savepoints.get(found.savepoint_id)
    return _status(found, savepoint)


@router.post(
    "/savepoint-disposal",
    status_code=HTTPStatus.ACCEPTED,
    summary="Dispose of one",
    response_model=RequestAccepted,
)
async def dispose(
    request: Request, context: Ctx, uow: Uow, body: DisposalRequest
) -> dict[str, Any]:
    async with uow:
        found = await uow.savepoints.at(body.savepoint_path.rstrip("/"))
    if found is None:
        raise SavepointNotFound(f"no savepoint is known at {body.savepoint_path}")
    request.scope[SUBJECT] = found.id.hex
    await savepoints.dispose(context.units(), context.storage, found.id, context.clock())
    return {"request-id": found.id.hex}


@router.get(
    "/savepoint-disposal/{triggerid}",
    summary="How a disposal went",
    response_model=TriggerStatus,
    response_model_exclude_unset=True,
)
async def disposal_status(triggerid: str, uow: Uow) -> dict[str, Any]:
    async with uow:
        found = await uow.savepoints.get(SavepointId(trigger_of(triggerid)))
    is_done = found.status is SavepointStatus.DISPOSED
    return {"status": {"id": "COMPLETED" if is_done else "IN_PROGRESS"}, "operation": {}}


async def _ask(
    uow: UnitOfWork, job_id: JobId, request: savepoints.TakeSavepoint, context: Ctx
) -> str:
    return (await savepoints.trigger(uow, job_id, request, context.clock())).id.hex


def _status(found: StoredOperation, savepoint: Savepoint) -> dict[str, Any]:
    operation = found.operation
    if operation.status is OperationStatus.IN_PROGRESS:
        return {"status": {"id": "IN_PROGRESS"}, "operation": None}
    if operation.status is OperationStatus.COMPLETED:
        return {"status": {"id": "COMPLETED"}, "operation": {"location": savepoint.directory}}
    cause = failure_cause(_FAILED, operation.error or "the operation failed")
    return {"status": {"id": "COMPLETED"}, "operation": {"failure-cause": cause}}
