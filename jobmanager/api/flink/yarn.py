"""Two routes that change something by GET: Flink has them for YARN's proxy, which passes nothing
else on. `core/access/route_rules.py` and `api/browser_safety.py` treat them as the writes they are.
"""

from http import HTTPStatus
from typing import Any
from uuid import uuid4

from fastapi import APIRouter

from jobmanager.api.context import Ctx, JobIdPath, Uow
from jobmanager.api.problems import FLINK
from jobmanager.api.savepoint_targets import target_of
from jobmanager.api.shapes.flink.operations import Nothing, RequestAccepted
from jobmanager.core.ids import OperationId
from jobmanager.core.life.operation import OperationKind
from jobmanager.services import jobs, savepoints

router = APIRouter(tags=[FLINK])


@router.get(
    "/jobs/{jobid}/yarn-cancel",
    status_code=HTTPStatus.ACCEPTED,
    summary="Cancel a job",
    response_model=Nothing,
)
async def cancel(job_id: JobIdPath, context: Ctx, uow: Uow) -> dict[str, Any]:
    await jobs.cancel(uow, job_id, "cancelled by a client", context.clock())
    return {}


@router.get(
    "/jobs/{jobid}/yarn-stop",
    status_code=HTTPStatus.ACCEPTED,
    summary="Stop a job with a savepoint",
    response_model=RequestAccepted,
)
async def stop(job_id: JobIdPath, context: Ctx, uow: Uow) -> dict[str, Any]:
    request = savepoints.TakeSavepoint(
        OperationId(uuid4()), OperationKind.STOP, await target_of(context, None)
    )
    operation = await savepoints.trigger(uow, job_id, request, context.clock())
    return {"request-id": operation.id.hex}
