"""Native routes about jobs: submit, graph, status, key groups, history."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any, Literal
from uuid import uuid4

from fastapi import APIRouter, Header, Query, Request
from pydantic import AwareDatetime

from jobmanager.api import status as statuses
from jobmanager.api.context import SUBJECT, Ctx, CurrentCaller, JobIdPath, Uow
from jobmanager.api.flink.plan_shapes import plan_document
from jobmanager.api.graph_body import GRAPH_BODY, resolved_document
from jobmanager.api.json_answer import JsonAnswer
from jobmanager.api.problems import FLINK, FLINK_ERRORS, GRAPH_FAULTS, fault_shape
from jobmanager.api.shapes.flink.plans import JobPlan
from jobmanager.api.shapes.jobs import (
    DryRun,
    GraphResponse,
    HistoryItem,
    HistoryPage,
    JobState,
    JobSubmitted,
    KeyGroupsResponse,
    KeyGroupSubtask,
    KeyGroupVertex,
)
from jobmanager.api.shapes.shape import ShapeResponse
from jobmanager.api.shapes.status import StatusResponse
from jobmanager.core.access.callers import Caller
from jobmanager.core.errors import (
    Fault,
    InvalidJobGraph,
    PathNotAllowed,
    StateDoesNotFit,
    UnusableRestorePoint,
)
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.ids import JobId, RegionId
from jobmanager.core.life.records import RestorePoint
from jobmanager.services import analyses, artifacts, events, jobs, restore_points
from jobmanager.services.ports.history import HistoryFilter
from jobmanager.services.restore_points import RestoreRequest

router = APIRouter(tags=["jobs"])


@router.post(
    "/jobs",
    status_code=HTTPStatus.ACCEPTED,
    summary="Submit a job graph",
    openapi_extra=GRAPH_BODY,
    response_model=JobSubmitted,
    responses={200: {"model": DryRun, "description": "A dry run"}, **GRAPH_FAULTS},
)
async def submit(
    request: Request,
    context: Ctx,
    caller: CurrentCaller,
    uow: Uow,
    parallelism: Annotated[int | None, Query(ge=1, le=32_768)] = None,
    dry_run: bool = False,
    analyse: Annotated[bool, Query(description="Let Spark analyse the graph first.")] = False,
    savepoint: Annotated[str | None, Query(description="An id, or a location.")] = None,
    checkpoint: Annotated[str | None, Query(description="<job id>:<number>")] = None,
    restore_mode: Literal["no_claim", "claim"] = "no_claim",
    allow_non_restored_state: bool = False,
    allow_drained: Annotated[
        bool, Query(description="Start from a drained savepoint: its watermark is at the end.")
    ] = False,
    idempotency_key: Annotated[str | None, Header(min_length=1, max_length=255)] = None,
) -> JobSubmitted | ShapeResponse:
    """The body is the job graph itself, as JSON or YAML. A dry run stores nothing."""
    asked = RestoreRequest(
        savepoint, checkpoint, restore_mode == "claim", allow_non_restored_state, allow_drained
    )
    if dry_run:
        found = await _dry_run(request, context, caller, parallelism, asked, analyse=analyse)
        return ShapeResponse(found, HTTPStatus.OK)
    document = await resolved_document(request, context, caller)
    if idempotency_key is not None:
        known = await jobs.submitted_before(context.units(), document, parallelism, idempotency_key)
        if known is not None:
            request.scope[SUBJECT] = known.hex
            return JobSubmitted(jobid=known.hex)
    if analyse:
        graph, in_force = jobs.check(document, parallelism)
        await _check_artifacts(context, graph)
        await _analysed(context, document, in_force)
    point = None
    if savepoint or checkpoint:
        graph, _ = jobs.check(document, parallelism)
        point = await _restore_point(context, asked, graph)
    job_id = await jobs.submit(
        uow,
        JobId(uuid4()),
        document,
        parallelism,
        idempotency_key,
        context.clock(),
        point,
        context.run_settings.data_root,
    )
    request.scope[SUBJECT] = job_id.hex
    return JobSubmitted(jobid=job_id.hex)


@router.post(
    "/jobs/{jobid}/pause",
    status_code=HTTPStatus.ACCEPTED,
    summary="Pause a job between two batches",
)
async def pause(job_id: JobIdPath, context: Ctx, uow: Uow) -> JobState:
    """The batch under way is finished; then nothing runs. State, output and, for an hour, the
    runner with its Spark session are kept. A paused job stays so until it is resumed or cancelled,
    whatever happens to its runner and its server. A repetition changes nothing.
    """
    stored = await jobs.pause(uow, job_id, "paused by a client", context.clock())
    return JobState(jobid=job_id.hex, state=stored.job.status)


@router.post(
    "/jobs/{jobid}/resume",
    status_code=HTTPStatus.ACCEPTED,
    summary="Let a paused job continue",
)
async def resume(job_id: JobIdPath, context: Ctx, uow: Uow) -> JobState:
    """From its last batch, on the runner that has waited, or else on a new one. A job that is not
    paused is left alone.
    """
    stored = await jobs.resume(uow, job_id, "resumed by a client", context.clock())
    return JobState(jobid=job_id.hex, state=stored.job.status)


@router.get("/jobs/{jobid}/graph", summary="The job graph as submitted")
async def graph(job_id: JobIdPath, uow: Uow) -> GraphResponse:
    async with uow:
        stored = await uow.jobs.get(job_id)
    return GraphResponse(
        graph=dict(stored.document), revision=stored.revision, parallelism=stored.parallelism
    )


@router.get(
    "/jobs/{jobid}/status",
    summary="Desired and observed state, and why",
    response_model=StatusResponse,
    tags=[FLINK],
    responses=FLINK_ERRORS,
)
async def status(job_id: JobIdPath, uow: Uow) -> JsonAnswer:
    async with uow:
        found = await uow.job_reads.now(job_id)
    return JsonAnswer(statuses.status_of(found))


@router.get("/jobs/{jobid}/key-groups", summary="Which subtask owns which key groups")
async def key_groups(job_id: JobIdPath, uow: Uow) -> KeyGroupsResponse:
    async with uow:
        stored = await uow.jobs.get(job_id)
        owned = await uow.key_groups.of_job(job_id)
    vertices: dict[str, list[KeyGroupSubtask]] = {}
    for (vertex, subtask), groups in owned.items():
        one = KeyGroupSubtask(subtask=subtask, key_groups=list(groups))
        vertices.setdefault(vertex, []).append(one)
    return KeyGroupsResponse(
        max_parallelism=stored.graph.max_parallelism,
        parallelism=stored.parallelism,
        vertices=[KeyGroupVertex(vertex=v, subtasks=s) for v, s in vertices.items()],
    )


@router.get("/jobs/{jobid}/history", summary="Everything that happened, with its cause")
async def history(
    job_id: JobIdPath,
    uow: Uow,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    cursor: Annotated[int, Query(ge=0, le=2**62)] = 0,
    newest_first: bool = False,
    kind: Annotated[
        list[str] | None, Query(max_length=50, description="Only these kinds of entries.")
    ] = None,
    since: Annotated[AwareDatetime | None, Query(description="Only entries since then.")] = None,
) -> HistoryPage:
    wanted = HistoryFilter(limit, cursor or None, newest_first, kind or (), since)
    async with uow:
        await uow.jobs.get(job_id)
        found = await uow.history.of_job(job_id, wanted)
    items = [HistoryItem.model_validate(events.item(one)) for one in found]
    return HistoryPage(items=items, next=str(items[-1].id) if len(items) == limit else None)


async def _restore_point(
    context: Ctx, asked: RestoreRequest, graph: JobGraph
) -> RestorePoint | None:
    return await restore_points.requested(
        context.units, context.storage, asked, graph, context.run_settings
    )


async def _check_artifacts(context: Ctx, graph: JobGraph) -> None:
    async with context.units() as uow:
        await artifacts.check(uow, graph)


async def _analysed(
    context: Ctx, document: Mapping[str, Any], parallelism: int
) -> dict[RegionId, str]:
    return await analyses.plans_of(context.inspector, document, parallelism, context.run_settings)


async def _dry_run(
    request: Request,
    context: Ctx,
    caller: Caller,
    parallelism: int | None,
    asked: RestoreRequest,
    *,
    analyse: bool,
) -> DryRun:
    """Answer a submission without storing anything; reasons to refuse it are returned as faults."""
    plans: dict[RegionId, str] = {}
    try:
        document = await resolved_document(request, context, caller, is_dry=True)
        graph, in_force = jobs.check(document, parallelism)
        await _check_artifacts(context, graph)
        if analyse:
            plans = await _analysed(context, document, in_force)
        await _restore_point(context, asked, graph)
    except (InvalidJobGraph, StateDoesNotFit) as error:
        return DryRun(plan=None, faults=[fault_shape(one) for one in error.faults])
    except (UnusableRestorePoint, PathNotAllowed) as error:
        field = "savepoint" if asked.savepoint else "checkpoint"
        return DryRun(plan=None, faults=[fault_shape(Fault(None, field, str(error)))])
    plan = JobPlan.model_validate(plan_document("0" * 32, graph, document, in_force, plans))
    return DryRun(plan=plan, faults=[])
