"""Native routes about savepoints and operations."""

from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from jobmanager.api.context import SUBJECT, Ctx, CurrentCaller, JobIdPath, Uow, hex_id
from jobmanager.api.graph_body import resolved
from jobmanager.api.problems import GRAPH_FAULTS
from jobmanager.api.savepoint_targets import target_of
from jobmanager.api.shapes.checkpoints import VerificationResponse
from jobmanager.api.shapes.operations import (
    FromTo,
    JobChanged,
    KeyGroupMove,
    OperationList,
    OperationResponse,
    PhaseResponse,
    SavepointMade,
)
from jobmanager.api.shapes.savepoints import SavepointPage, SavepointRegion, SavepointResponse
from jobmanager.core.errors import OperationNotFound
from jobmanager.core.ids import OperationId, SavepointId
from jobmanager.core.life.change import moves
from jobmanager.core.life.records import Savepoint, StoredOperation
from jobmanager.services import adoptions, savepoints
from jobmanager.services.ports.unit_of_work import UnitOfWork

router = APIRouter(tags=["savepoints"])
IdPath = Annotated[str, Path(description="32 hexadecimal digits")]


class LabelRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    labels: dict[str, str | None]
    """Null removes the label."""


class AdoptRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    path: str = Field(description="The checkpoint directory: absolute, or a file: URI.")
    graph: dict[str, Any] = Field(
        description="The job graph that shall continue from the savepoint."
    )
    parallelism: int | None = Field(None, ge=1, description="Instead of the graph's own.")
    target_directory: str | None = None


@router.get("/savepoints", summary="All savepoints, the newest first")
async def savepoint_list(
    uow: Uow,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    cursor: datetime | None = None,
) -> SavepointPage:
    async with uow:
        found = await uow.savepoints.all(limit, cursor)
    items = [_savepoint(one) for one in found]
    more = items[-1].created_at.isoformat() if len(items) == limit else None
    return SavepointPage(items=items, next=more)


@router.get("/savepoints/{sid}", summary="A savepoint")
async def show(sid: IdPath, uow: Uow) -> SavepointResponse:
    async with uow:
        return _savepoint(await uow.savepoints.get(SavepointId(hex_id("sid", sid))))


@router.patch("/savepoints/{sid}", summary="Label a savepoint")
async def label(sid: IdPath, body: LabelRequest, uow: Uow) -> SavepointResponse:
    savepoint_id = SavepointId(hex_id("sid", sid))
    return _savepoint(await savepoints.label(uow, savepoint_id, body.labels))


@router.delete(
    "/savepoints/{sid}", status_code=HTTPStatus.ACCEPTED, summary="Dispose of a savepoint"
)
async def dispose(sid: IdPath, context: Ctx, uow: Uow) -> SavepointResponse:
    savepoint_id = SavepointId(hex_id("sid", sid))
    found = await savepoints.dispose(uow, context.storage, savepoint_id, context.clock())
    return _savepoint(found)


@router.post(
    "/savepoints/adopt",
    status_code=HTTPStatus.CREATED,
    summary="Make a savepoint of the checkpoint of a plain Spark query",
    responses=GRAPH_FAULTS,
)
async def adopt(
    body: AdoptRequest, request: Request, context: Ctx, caller: CurrentCaller
) -> SavepointResponse:
    wanted = adoptions.AdoptionRequest(
        path=body.path,
        document=await resolved(body.graph, context, caller),
        parallelism=body.parallelism,
        target=await target_of(context, body.target_directory),
        settings=context.run_settings,
    )
    found = await adoptions.adopt(
        context.units, context.storage, context.inspector, wanted, context.clock
    )
    request.scope[SUBJECT] = found.id.hex
    return _savepoint(found)


@router.post(
    "/savepoints/{sid}/verify", summary="Compare every file of a savepoint with its checksum"
)
async def verify(sid: IdPath, context: Ctx, uow: Uow) -> VerificationResponse:
    found = await savepoints.verify(uow, context.storage, SavepointId(hex_id("sid", sid)))
    return VerificationResponse(files=found.files, bytes=found.bytes, faults=list(found.faults))


@router.get("/operations/{oid}", summary="The progress of an operation")
async def operation(oid: IdPath, uow: Uow) -> OperationResponse:
    async with uow:
        found = await uow.operations.get(OperationId(hex_id("oid", oid)))
        if found is None:
            raise OperationNotFound(f"operation {oid} not found")
        savepoint = await _savepoint_of(uow, found)
    return _operation(found, savepoint)


@router.get("/jobs/{jobid}/operations", summary="The operations of a job, the newest first")
async def operation_list(job_id: JobIdPath, uow: Uow) -> OperationList:
    async with uow:
        await uow.jobs.get(job_id)
        items = [
            _operation(one, await _savepoint_of(uow, one))
            for one in await uow.operations.of_job(job_id)
        ]
    return OperationList(items=items, next=None)


async def _savepoint_of(uow: UnitOfWork, found: StoredOperation) -> Savepoint | None:
    return None if found.savepoint_id is None else await uow.savepoints.get(found.savepoint_id)


def _savepoint(savepoint: Savepoint) -> SavepointResponse:
    return SavepointResponse(
        id=savepoint.id.hex,
        path=savepoint.directory,
        job=savepoint.job_id.hex if savepoint.job_id else None,
        checkpoint=savepoint.checkpoint,
        status=savepoint.status,
        graph_revision=savepoint.graph_revision,
        parallelism=savepoint.parallelism,
        max_parallelism=savepoint.max_parallelism,
        regions={
            region: SavepointRegion.model_validate(one)
            for region, one in (savepoint.regions or {}).items()
        },
        bytes=savepoint.bytes,
        created_at=savepoint.created_at,
        completed_at=savepoint.completed_at,
        disposed_at=savepoint.disposed_at,
        failure=savepoint.failure,
        labels=dict(savepoint.labels),
        parent=savepoint.parent,
        drained=savepoint.drained,
    )


def _result(found: StoredOperation, savepoint: Savepoint | None) -> JobChanged | SavepointMade:
    if found.change is None:
        assert savepoint is not None
        return SavepointMade(savepoint=savepoint.id.hex, path=savepoint.directory)
    change, moved = found.change, moves(found.change)
    return JobChanged(
        savepoint=savepoint.id.hex if savepoint else None,
        path=savepoint.directory if savepoint else None,
        parallelism=FromTo(before=change.before.parallelism, after=change.after.parallelism),
        graph_revision=FromTo(before=change.before.number, after=change.after.number),
        key_groups_moved=sum(len(one.key_groups) for one in moved),
        moves=[
            KeyGroupMove(
                vertex=one.vertex,
                source=one.source,
                target=one.target,
                key_groups=list(one.key_groups),
            )
            for one in moved
        ],
    )


def _operation(found: StoredOperation, savepoint: Savepoint | None) -> OperationResponse:
    operation = found.operation
    done = savepoint is None or savepoint.completed_at is not None
    return OperationResponse(
        id=found.id.hex,
        job=found.job_id.hex,
        kind=operation.kind,
        status=operation.status,
        phases=[
            PhaseResponse(
                name=phase.name,
                started_at=phase.started_at,
                ended_at=phase.ended_at,
                detail=phase.detail,
            )
            for phase in operation.phases
        ],
        result=_result(found, savepoint) if done else None,
        error=operation.error,
        created_at=found.created_at,
        ended_at=operation.ended_at,
    )
