"""Queryable state: reads the state in a job's last completed checkpoint, or in a savepoint."""

import re
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query

from jobmanager.api import path_parameters
from jobmanager.api.context import Ctx, JobIdPath, hex_id
from jobmanager.api.shapes.state import (
    ColumnResponse,
    InspectorResponse,
    KeyGroupHistogram,
    KeyGroupResponse,
    KeyResponse,
    RowPage,
    RowResponse,
    SkewResponse,
    StateList,
    StateResponse,
)
from jobmanager.core.ids import SavepointId
from jobmanager.core.plan.key_group_skew import skew
from jobmanager.protocol.inspection import MOST_ROWS, StateColumn, StateDescription
from jobmanager.services.state import (
    Cursor,
    FindSnapshot,
    StateChoice,
    StateService,
    StateSnapshot,
)

path_parameters.register()
router = APIRouter(tags=["state"])


async def _service(context: Ctx) -> StateService:
    return StateService(context.units, context.storage, context.inspector, context.run_settings)


Service = Annotated[StateService, Depends(_service)]


async def _of_job(job_id: JobIdPath, service: Service) -> FindSnapshot:
    return service.of_job(job_id)


async def _of_savepoint(
    sid: Annotated[str, Path(description="32 hexadecimal digits")], service: Service
) -> FindSnapshot:
    return service.of_savepoint(SavepointId(hex_id("sid", sid)))


async def _choice(
    vertex: str,
    name: str,
    region: Annotated[str | None, Query(description="For a vertex in several regions.")] = None,
) -> StateChoice:
    return StateChoice(vertex, name, region)


async def _cursor(
    cursor: Annotated[str | None, Query(description="The `next` of the page before.")] = None,
) -> Cursor:
    return Cursor.parse(cursor)


OfJob = Annotated[FindSnapshot, Depends(_of_job)]
OfSavepoint = Annotated[FindSnapshot, Depends(_of_savepoint)]
Choice = Annotated[StateChoice, Depends(_choice)]
Position = Annotated[Cursor, Depends(_cursor)]
Limit = Annotated[int, Query(ge=1, le=MOST_ROWS)]
Key = Annotated[str, Path(description="A value, or a JSON object of key columns.")]


@router.get("/inspector", summary="The process that reads state")
async def inspector(context: Ctx) -> InspectorResponse:
    found = context.inspector.status()
    return InspectorResponse(
        state=found.state, pid=found.pid, spark_version=found.spark_version, log=found.log_path
    )


@router.get("/jobs/{jobid}/state", summary="The states of a job")
async def of_job(find: OfJob, service: Service) -> StateList:
    return await _list(service, find)


@router.get("/jobs/{jobid}/state/{vertex}/{name}", summary="The rows of a state, by page")
async def rows_of_job(
    find: OfJob, choice: Choice, cursor: Position, service: Service, limit: Limit = 100
) -> RowPage:
    return await _rows(service, find, choice, cursor, limit)


@router.get("/jobs/{jobid}/state/{vertex}/{name}/key-groups", summary="Rows and bytes a key group")
async def key_groups_of_job(find: OfJob, choice: Choice, service: Service) -> KeyGroupHistogram:
    return await _histogram(service, find, choice)


@router.get("/jobs/{jobid}/state/{vertex}/{name}/{key:path}", summary="The rows of a key")
async def key_of_job(
    find: OfJob, choice: Choice, key: Key, cursor: Position, service: Service, limit: Limit = 100
) -> KeyResponse:
    return await _key(service, find, choice, key, cursor, limit)


@router.get("/savepoints/{sid}/state", summary="The states in a savepoint")
async def of_savepoint(find: OfSavepoint, service: Service) -> StateList:
    return await _list(service, find)


@router.get("/savepoints/{sid}/state/{vertex}/{name}", summary="The rows of a state, by page")
async def rows_of_savepoint(
    find: OfSavepoint, choice: Choice, cursor: Position, service: Service, limit: Limit = 100
) -> RowPage:
    return await _rows(service, find, choice, cursor, limit)


@router.get(
    "/savepoints/{sid}/state/{vertex}/{name}/key-groups", summary="Rows and bytes a key group"
)
async def key_groups_of_savepoint(
    find: OfSavepoint, choice: Choice, service: Service
) -> KeyGroupHistogram:
    return await _histogram(service, find, choice)


@router.get("/savepoints/{sid}/state/{vertex}/{name}/{key:path}", summary="The rows of a key")
async def key_of_savepoint(
    find: OfSavepoint,
    choice: Choice,
    key: Key,
    cursor: Position,
    service: Service,
    limit: Limit = 100,
) -> KeyResponse:
    return await _key(service, find, choice, key, cursor, limit)


async def _list(service: StateService, find: FindSnapshot) -> StateList:
    snapshot, found = await service.list_states(find)
    return StateList(**_from(snapshot), items=[_state(one) for one in found.states])


async def _rows(
    service: StateService, find: FindSnapshot, choice: StateChoice, cursor: Cursor, limit: int
) -> RowPage:
    return RowPage(**await _page(service, find, choice, None, cursor, limit))


async def _key(
    service: StateService,
    find: FindSnapshot,
    choice: StateChoice,
    key: str,
    cursor: Cursor,
    limit: int,
) -> KeyResponse:
    page = await _page(service, find, choice, key, cursor, limit)
    [only] = page["items"] if len(page["items"]) == 1 and not page["next"] else [None]
    return KeyResponse(
        **page,
        key=only.key if only else None,
        value=only.value if only else None,
        key_group=only.key_group if only else None,
        subtask=only.subtask if only else None,
    )


async def _page(
    service: StateService,
    find: FindSnapshot,
    choice: StateChoice,
    key: str | None,
    cursor: Cursor,
    limit: int,
) -> dict[str, Any]:
    snapshot, page = await service.read_rows(find, choice, key, cursor, limit)
    items = [
        RowResponse(checkpoint=snapshot.checkpoint, **row.model_dump()) for row in page.rows.rows
    ]
    return {**_from(snapshot), **page.state.model_dump(), "items": items, "next": page.next}


async def _histogram(
    service: StateService, find: FindSnapshot, choice: StateChoice
) -> KeyGroupHistogram:
    snapshot, state, counts = await service.count_key_groups(find, choice)
    has_groups = all(one.key_group is not None for one in counts.groups)
    groups = counts.max_parallelism if has_groups else 1
    return KeyGroupHistogram(
        **_from(snapshot),
        **state.model_dump(),
        max_parallelism=counts.max_parallelism,
        groups=[KeyGroupResponse(**one.model_dump()) for one in counts.groups],
        empty_groups=groups - len(counts.groups),
        skew=SkewResponse(
            rows=skew([one.rows for one in counts.groups], groups),
            bytes=skew([one.bytes for one in counts.groups], groups),
        ),
    )


def _from(snapshot: StateSnapshot) -> dict[str, Any]:
    return {
        "checkpoint": snapshot.checkpoint,
        "savepoint": snapshot.savepoint,
        "completed_at": snapshot.completed_at,
    }


def _state(found: StateDescription) -> StateResponse:
    return StateResponse(
        region=found.region,
        vertex=found.vertex,
        name=found.name,
        operator=found.operator,
        subtasks=found.subtasks,
        key_schema=_ddl(found.key),
        value_schema=_ddl(found.value),
        key=[ColumnResponse(**one.model_dump()) for one in found.key],
        value=[ColumnResponse(**one.model_dump()) for one in found.value],
    )


def _ddl(columns: list[StateColumn]) -> str:
    return ", ".join(f"{_quoted(one.name)} {one.type}" for one in columns)


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"\w+", name) else "`" + name.replace("`", "``") + "`"
