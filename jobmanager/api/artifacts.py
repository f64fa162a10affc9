"""Native routes about artifacts: Python files, zips and wheels that jobs name."""

from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response

from jobmanager.api.context import SUBJECT, Ctx, Uow
from jobmanager.api.shapes.artifacts import ArtifactDetails, ArtifactPage, ArtifactResponse
from jobmanager.core.artifact import Artifact, is_id
from jobmanager.core.errors import MalformedRequest
from jobmanager.core.ids import ArtifactId
from jobmanager.services import artifacts

router = APIRouter(tags=["artifacts"])
IdPath = Annotated[str, Path(description="64 hexadecimal digits, the SHA-256 of its content")]
_CONTENT: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.post(
    "/artifacts",
    status_code=HTTPStatus.CREATED,
    summary="Upload a .py, .zip or .whl",
    openapi_extra=_CONTENT,
    responses={200: {"model": ArtifactResponse, "description": "It was there before"}},
)
async def upload(
    request: Request,
    response: Response,
    context: Ctx,
    name: Annotated[str, Query(max_length=255, description="The file's name.")],
) -> ArtifactResponse:
    """The body is the file itself. Uploading the same content again answers 200, not 201, with the
    same artifact.
    """
    found, is_new = await artifacts.upload(
        context.units,
        context.storage.artifacts,
        context.run_settings.uploads,
        name,
        request.stream(),
        context.clock(),
    )
    request.scope[SUBJECT] = found.id
    if not is_new:
        response.status_code = HTTPStatus.OK
    return ArtifactResponse(**_facts(found))


@router.get("/artifacts", summary="All artifacts, the newest first")
async def artifact_list(
    uow: Uow,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    cursor: datetime | None = None,
) -> ArtifactPage:
    async with uow:
        found = await uow.artifacts.all(limit, cursor)
    items = [ArtifactResponse(**_facts(one)) for one in found]
    more = items[-1].uploaded_at.isoformat() if len(items) == limit else None
    return ArtifactPage(items=items, next=more)


@router.get("/artifacts/{aid}", summary="An artifact, its modules and who uses it")
async def show(aid: IdPath, uow: Uow) -> ArtifactDetails:
    artifact_id = _id(aid)
    async with uow:
        found = await uow.artifacts.get(artifact_id)
        users = await uow.artifacts.users(artifact_id)
    names = {module: sorted(one.names) for module, one in sorted(found.modules.items())}
    return ArtifactDetails(**_facts(found), names=names, jobs=[job.hex for job in users])


@router.delete("/artifacts/{aid}", summary="Delete an artifact that no job uses")
async def delete(aid: IdPath, context: Ctx) -> ArtifactResponse:
    found = await artifacts.delete(context.units, context.storage.artifacts, _id(aid))
    return ArtifactResponse(**_facts(found))


def _id(text: str) -> ArtifactId:
    if not is_id(text):
        raise MalformedRequest(f"{text!r} is not the id of an artifact: 64 hexadecimal digits")
    return ArtifactId(text)


def _facts(found: Artifact) -> dict[str, Any]:
    return {
        "id": found.id,
        "name": found.name,
        "bytes": found.bytes,
        "modules": sorted(found.modules),
        "uploaded_at": found.uploaded_at,
    }
