"""Flink's routes about a job's parallelism: rescaling, and resource requirements."""

from contextlib import suppress
from http import HTTPStatus
from typing import Annotated, Any
from uuid import uuid4

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field, RootModel

from jobmanager.api.context import Ctx, CurrentCaller, JobIdPath, Uow
from jobmanager.api.flink.failure_causes import failure_cause
from jobmanager.api.flink.plan_shapes import task_id
from jobmanager.api.flink.triggers import trigger_of
from jobmanager.api.problems import FLINK
from jobmanager.api.savepoint_targets import target_of
from jobmanager.api.shapes.flink.operations import Nothing, RequestAccepted, TriggerStatus
from jobmanager.core.errors import MalformedRequest, NothingToChange, OperationNotFound
from jobmanager.core.graph.parallelism import nearest_parallelism
from jobmanager.core.ids import OperationId
from jobmanager.core.life.operation import OperationStatus
from jobmanager.core.life.records import StoredJob
from jobmanager.core.plan.job_plan import Task
from jobmanager.core.plan.known_plans import plan_of
from jobmanager.services import changes
from jobmanager.services.ports.history import Actor

router = APIRouter(tags=[FLINK])
_FAILED = "org.apache.flink.util.FlinkException"


class Bounds(BaseModel):
    model_config = ConfigDict(extra="forbid")

    lowerBound: int = Field(1, ge=1)  # noqa: N815 - Flink's name
    upperBound: int = Field(ge=1)  # noqa: N815 - Flink's name


class VertexRequirements(BaseModel):
    model_config = ConfigDict(extra="forbid")

    parallelism: Bounds


class Requirements(RootModel[dict[str, VertexRequirements]]):
    """Bounds of the parallelism, by task id."""


@router.patch(
    "/jobs/{jobid}/rescaling",
    status_code=HTTPStatus.ACCEPTED,
    summary="Rescale a job",
    response_model=RequestAccepted,
)
async def rescale(
    job_id: JobIdPath,
    context: Ctx,
    uow: Uow,
    parallelism: Annotated[int, Query(ge=1, le=32_768)],
    trigger_id: Annotated[str | None, Query(alias="triggerId")] = None,
) -> dict[str, Any]:
    operation = await changes.rescale(
        uow,
        job_id,
        trigger_of(trigger_id),
        parallelism,
        await target_of(context, None),
        context.clock(),
    )
    return {"request-id": operation.id.hex}


@router.get(
    "/jobs/{jobid}/rescaling/{triggerid}",
    summary="How a rescale went",
    response_model=TriggerStatus,
    response_model_exclude_unset=True,
)
async def status(job_id: JobIdPath, triggerid: str, uow: Uow) -> dict[str, Any]:
    async with uow:
        await uow.jobs.get(job_id)
        found = await uow.operations.get(trigger_of(triggerid))
    if found is None or found.job_id != job_id:
        raise OperationNotFound(
            f"There is no rescaling operation with triggerId={triggerid} for job {job_id.hex}."
        )
    operation = found.operation
    if operation.status is OperationStatus.IN_PROGRESS:
        return {"status": {"id": "IN_PROGRESS"}, "operation": None}
    if operation.status is OperationStatus.COMPLETED:
        return {"status": {"id": "COMPLETED"}, "operation": {}}
    cause = failure_cause(_FAILED, operation.error or "the rescale failed")
    return {"status": {"id": "COMPLETED"}, "operation": {"failure-cause": cause}}


@router.get(
    "/jobs/{jobid}/resource-requirements",
    summary="What parallelism the tasks want",
    response_model=Requirements,
)
async def requirements(job_id: JobIdPath, uow: Uow) -> dict[str, Any]:
    async with uow:
        stored = await uow.jobs.get(job_id)
    return {
        task_id(job_id.hex, task): {
            "parallelism": {"lowerBound": 1, "upperBound": task.parallelism}
        }
        for task in plan_of(stored.graph, stored.parallelism).tasks
    }


@router.put(
    "/jobs/{jobid}/resource-requirements",
    summary="Ask for another parallelism",
    response_model=Nothing,
)
async def require(
    job_id: JobIdPath, context: Ctx, caller: CurrentCaller, uow: Uow, body: Requirements
) -> dict[str, Any]:
    """Rescale the job to the largest upper bound of its keyed tasks, which share one parallelism,
    rounded down to a divisor of max_parallelism; unless that is its parallelism already.
    """
    async with uow:
        stored = await uow.jobs.get(job_id)
    wanted = _wanted(stored, body.root)
    with suppress(NothingToChange):
        await changes.rescale(
            context.units(Actor.CLIENT, caller.name),
            job_id,
            OperationId(uuid4()),
            wanted,
            await target_of(context, None),
            context.clock(),
        )
    return {}


def _wanted(stored: StoredJob, body: dict[str, VertexRequirements]) -> int:
    tasks = {task_id(stored.id.hex, t): t for t in plan_of(stored.graph, stored.parallelism).tasks}
    unknown = [one for one in body if one not in tasks]
    if unknown:
        raise MalformedRequest(f"the job has no task {unknown[0]}: its tasks are {list(tasks)}")
    for one, bounds in body.items():
        if bounds.parallelism.lowerBound > bounds.parallelism.upperBound:
            raise MalformedRequest(f"task {one}: lowerBound is greater than upperBound")
    keyed = {one: t for one, t in tasks.items() if _is_keyed(stored, t)} or tasks
    asked = [body[one].parallelism for one in keyed if one in body]
    if not asked:
        raise MalformedRequest(
            f"no bounds of a task whose parallelism can change: give those of {list(keyed)}"
        )
    return nearest_parallelism(
        stored.graph.max_parallelism,
        least=max(one.lowerBound for one in asked),
        most=max(one.upperBound for one in asked),
    )


def _is_keyed(stored: StoredJob, task: Task) -> bool:
    return any(stored.graph.vertex(one).is_keyed for one in task.vertices)
