"""Native routes about jobs: submit, graph, status, key groups, history."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any
from uuid import uuid4

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import BaseModel

from jobmanager.api import status as statuses
from jobmanager.api.context import Ctx, JobIdPath, Uow
from jobmanager.api.flink.plan_shapes import plan_document
from jobmanager.core.errors import InvalidJobGraph, MalformedRequest, UnsupportedRequest
from jobmanager.core.ids import JobId
from jobmanager.protocol.graph_text import parse_yaml
from jobmanager.services import jobs, restore_points
from jobmanager.services.ports import RestorePoint

router = APIRouter(tags=["jobs"])
_YAML = ("application/yaml", "application/x-yaml", "text/yaml")


class KeyGroupSubtask(BaseModel):
    subtask: int
    key_groups: list[int]


class KeyGroupVertex(BaseModel):
    vertex: str
    subtasks: list[KeyGroupSubtask]


class KeyGroupsResponse(BaseModel):
    max_parallelism: int
    parallelism: int
    vertices: list[KeyGroupVertex]


class GraphResponse(BaseModel):
    graph: dict[str, Any]
    revision: int
    parallelism: int


class HistoryItem(BaseModel):
    id: int
    at: datetime
    kind: str
    cause: str
    attempt: int | None
    checkpoint: int | None
    detail: dict[str, Any]


class HistoryPage(BaseModel):
    items: list[HistoryItem]
    next: str | None


@router.post(
    "/jobs",
    status_code=HTTPStatus.ACCEPTED,
    summary="Submit a job graph",
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": {"type": "object"}},
                "application/yaml": {"schema": {"type": "object"}},
            },
        }
    },
)
async def submit(
    request: Request,
    response: Response,
    context: Ctx,
    uow: Uow,
    parallelism: Annotated[int | None, Query(ge=1, le=32_768)] = None,
    dry_run: bool = False,
    savepoint: Annotated[str | None, Query(description="An id, or where it is.")] = None,
    checkpoint: Annotated[str | None, Query(description="<job id>:<number>")] = None,
    restore_mode: str = "no_claim",
    allow_non_restored_state: bool = False,
    idempotency_key: Annotated[str | None, Header(min_length=1, max_length=255)] = None,
) -> dict[str, Any]:
    """The body is the job graph itself, as JSON or YAML. Nothing is stored by a dry run."""
    document = await _document(request)
    if restore_mode != "no_claim":
        raise UnsupportedRequest(
            f"restore_mode {restore_mode!r} is not supported by this version of Headgate yet: "
            "leave it out, or say no_claim"
        )
    if dry_run:
        response.status_code = HTTPStatus.OK
        return _dry_run(document, parallelism)
    point = await _restore_point(context, document, parallelism, savepoint, checkpoint)
    if point is not None:
        point = replace(point, allow_non_restored_state=allow_non_restored_state)
    job_id = await jobs.submit(
        uow, JobId(uuid4()), document, parallelism, idempotency_key, context.clock(), point
    )
    return {"jobid": job_id.hex}


@router.get("/jobs/{jobid}/graph", summary="The job graph as submitted")
async def graph(job_id: JobIdPath, uow: Uow) -> GraphResponse:
    async with uow:
        stored = await uow.jobs.get(job_id)
    return GraphResponse(
        graph=dict(stored.document), revision=stored.revision, parallelism=stored.parallelism
    )


@router.get("/jobs/{jobid}/status", summary="What is wanted, what is seen, and why")
async def status(job_id: JobIdPath, uow: Uow) -> statuses.StatusResponse:
    async with uow:
        stored = await uow.jobs.get(job_id)
        attempt = await uow.attempts.get(job_id, stored.job.attempt)
        runner = await uow.runners.of_attempt(job_id, stored.job.attempt)
        restorable = await uow.checkpoints.restorable(job_id)
        last = await uow.checkpoints.get(job_id, restorable[-1]) if restorable else None
    return statuses.status_of(stored, attempt, runner, last)


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
    cursor: Annotated[int, Query(ge=0)] = 0,
) -> HistoryPage:
    async with uow:
        await uow.jobs.get(job_id)
        found = await uow.history.of_job(job_id, cursor, limit)
    items = [
        HistoryItem(
            id=entry_id,
            at=entry.at,
            kind=entry.kind,
            cause=entry.cause,
            attempt=entry.attempt,
            checkpoint=entry.checkpoint,
            detail=dict(entry.detail),
        )
        for entry_id, entry in found
    ]
    return HistoryPage(items=items, next=str(items[-1].id) if len(items) == limit else None)


async def _restore_point(
    context: Ctx,
    document: Mapping[str, Any],
    parallelism: int | None,
    savepoint: str | None,
    checkpoint: str | None,
) -> RestorePoint | None:
    if savepoint and checkpoint:
        raise UnsupportedRequest("a job starts from a savepoint or from a checkpoint, not both")
    if savepoint:
        point = await restore_points.of_savepoint(context.units(), savepoint)
    elif checkpoint:
        point = await restore_points.of_checkpoint(
            context.units(), checkpoint, context.run_settings
        )
    else:
        return None
    graph, in_force = jobs.check(document, parallelism)
    return await restore_points.check(
        context.units(),
        context.storage,
        point,
        graph,
        in_force,
        context.run_settings.data_root,
    )


async def _document(request: Request) -> Mapping[str, Any]:
    body = await request.body()
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip()
    try:
        document = parse_yaml(body) if kind in _YAML else json.loads(body)
    except (ValueError, RecursionError) as error:
        shown = " ".join(str(error).split())
        language = "YAML" if kind in _YAML else "JSON"
        raise MalformedRequest(f"the body is not {language}: {shown}") from error
    if not isinstance(document, dict):
        raise MalformedRequest("the body is not a job graph: a mapping with name and vertices")
    try:
        # YAML has dates and numbers that JSON has not; Postgres keeps JSON.
        plain: dict[str, Any] = json.loads(json.dumps(document, allow_nan=False, default=str))
    except (ValueError, TypeError, RecursionError) as error:
        raise MalformedRequest(f"the job graph cannot be kept as JSON: {error}") from error
    if "\\u0000" in json.dumps(plain):
        raise MalformedRequest("the job graph holds a NUL character")
    return plain


def _dry_run(document: Mapping[str, Any], parallelism: int | None) -> dict[str, Any]:
    try:
        graph, in_force = jobs.check(document, parallelism)
    except InvalidJobGraph as error:
        faults = [
            {"vertex": fault.vertex, "field": fault.field, "message": fault.message}
            for fault in error.faults
        ]
        return {"plan": None, "faults": faults}
    return {"plan": plan_document("0" * 32, graph, in_force), "faults": []}
