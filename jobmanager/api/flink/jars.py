"""Flink's routes about jars: upload a file that can be run, list, plan, run, delete.

A jar is a job graph, a PySpark program, or a zip of Python packages with a job graph in it
(`core/jar.py`). To run it is to submit the graph, as `POST /jobs` does.
"""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any
from uuid import UUID, uuid4

from fastapi import APIRouter, File, Path, Request, UploadFile

from jobmanager.api.context import SUBJECT, ApiContext, Ctx, CurrentCaller, Uow
from jobmanager.api.flink.jar_requests import (
    AskedInQuery,
    JarCall,
    JarRequestBody,
    JarRunRequestBody,
)
from jobmanager.api.flink.plan_shapes import plan_document
from jobmanager.api.flink.times import millis
from jobmanager.api.graph_body import resolved
from jobmanager.api.problems import FLINK
from jobmanager.api.shapes.flink.jars import ApplicationStarted, JarList, JarStarted, JarUploaded
from jobmanager.api.shapes.flink.operations import Nothing
from jobmanager.api.shapes.flink.plans import JobPlanResponse
from jobmanager.core.access.callers import Caller
from jobmanager.core.errors import JobIdTaken, JobNotFound, UnsupportedRequest
from jobmanager.core.flink_configuration import with_configuration
from jobmanager.core.graph.script_graph import ScriptCall
from jobmanager.core.ids import JobId
from jobmanager.core.jar import Jar
from jobmanager.core.snapshots import layout
from jobmanager.core.snapshots.storage_uri import below
from jobmanager.services import jars, jobs, restore_points, scripts
from jobmanager.services.ports.history import Actor
from jobmanager.services.restore_points import RestoreRequest

router = APIRouter(tags=[FLINK])
JarId = Annotated[
    str, Path(max_length=300, description="The last part of the uploaded file's path")
]
_MOST_LISTED = 1000
_CHECKPOINT = re.compile(r".*/([0-9a-f]{32})/[a-z]+/(\d{1,18})/?", re.DOTALL)


@router.get("/jars", summary="Files that can be run", response_model=JarList)
async def jar_list(request: Request, uow: Uow) -> dict[str, Any]:
    async with uow:
        found = await uow.jars.all(_MOST_LISTED)
    address = str(request.base_url).rstrip("/")
    return {"address": address, "files": [_file(one) for one in found]}


@router.post("/jars/upload", summary="Upload a file that can be run", response_model=JarUploaded)
async def upload(
    request: Request,
    context: Ctx,
    jarfile: Annotated[UploadFile, File(description="The file; its name says what it is.")],
) -> dict[str, Any]:
    """As a form with one file: a job graph (.json, .yaml), a PySpark program (.py), or a zip of
    Python packages with job.yaml at its top (.zip, .whl, .jar).
    """
    jar = await jars.upload(
        context.units,
        context.storage.artifacts,
        context.run_settings.uploads,
        (jarfile.filename or "").rsplit("/", 1)[-1],
        jarfile.file,
        uuid4(),
        context.clock(),
    )
    request.scope[SUBJECT] = jar.id
    return {"filename": f"/jars/{jar.id}", "status": "success"}


@router.delete("/jars/{jarid}", summary="Delete an uploaded file", response_model=Nothing)
async def delete(jarid: JarId, context: Ctx) -> dict[str, Any]:
    """Jobs that the file was run as go on."""
    await jars.delete(context.units, context.storage.artifacts, jarid)
    return {}


@router.get(
    "/jars/{jarid}/plan",
    summary="The plan of an uploaded file",
    response_model=JobPlanResponse,
    response_model_exclude_unset=True,
)
async def plan_by_get(
    jarid: JarId, context: Ctx, caller: CurrentCaller, uow: Uow, query: AskedInQuery
) -> dict[str, Any]:
    return await _plan(context, caller, uow, jarid, JarCall(None, query))


@router.post(
    "/jars/{jarid}/plan",
    summary="The plan of an uploaded file",
    response_model=JobPlanResponse,
    response_model_exclude_unset=True,
)
async def plan(
    jarid: JarId,
    context: Ctx,
    caller: CurrentCaller,
    uow: Uow,
    query: AskedInQuery,
    body: JarRequestBody | None = None,
) -> dict[str, Any]:
    return await _plan(context, caller, uow, jarid, JarCall(body, query))


@router.post("/jars/{jarid}/run", summary="Run an uploaded file", response_model=JarStarted)
async def run(
    request: Request,
    jarid: JarId,
    context: Ctx,
    caller: CurrentCaller,
    uow: Uow,
    query: AskedInQuery,
    body: JarRunRequestBody | None = None,
) -> dict[str, Any]:
    job_id = await _run(context, caller, uow, jarid, JarCall(body, query))
    request.scope[SUBJECT] = job_id.hex
    return {"jobid": job_id.hex, "applicationId": job_id.hex}


@router.post(
    "/jars/{jarid}/run-application",
    status_code=HTTPStatus.ACCEPTED,
    summary="Run an uploaded file",
    response_model=ApplicationStarted,
)
async def run_application(
    request: Request,
    jarid: JarId,
    context: Ctx,
    caller: CurrentCaller,
    uow: Uow,
    query: AskedInQuery,
    body: JarRunRequestBody | None = None,
) -> dict[str, Any]:
    """The id of the application is that of its one job."""
    job_id = await _run(context, caller, uow, jarid, JarCall(body, query))
    request.scope[SUBJECT] = job_id.hex
    return {"applicationid": job_id.hex}


async def _plan(
    context: ApiContext, caller: Caller, uow: Uow, jar_id: str, call: JarCall
) -> dict[str, Any]:
    async with uow:
        jar = await uow.jars.get(jar_id)
    document = await resolved(await _document(context, jar, call), context, caller, is_dry=True)
    graph, parallelism = jobs.check(document, call.parallelism)
    return {"plan": plan_document(call.job_id or "0" * 32, graph, document, parallelism)}


async def _run(context: ApiContext, caller: Caller, uow: Uow, jar_id: str, call: JarCall) -> JobId:
    async with uow:
        jar = await uow.jars.get(jar_id)
    job_id = JobId(UUID(hex=call.job_id)) if call.job_id else JobId(uuid4())
    document = await resolved(await _document(context, jar, call), context, caller)
    graph, _ = jobs.check(document, call.parallelism)
    point = await restore_points.requested(
        context.units, context.storage, _restore(context, call), graph, context.run_settings
    )
    if call.job_id:
        await _check_new(context, job_id)
    return await jobs.submit(
        context.units(Actor.CLIENT, caller.name),
        job_id,
        document,
        call.parallelism,
        f"flink-jar-run-{job_id.hex}" if call.job_id else None,
        context.clock(),
        point,
        context.run_settings.data_root,
    )


async def _check_new(context: ApiContext, job_id: JobId) -> None:
    """A client may choose the job's id, once; the same request again is the same job."""
    async with context.units() as uow:
        if await uow.jobs.with_idempotency_key(f"flink-jar-run-{job_id.hex}") is not None:
            return
        try:
            await uow.jobs.get(job_id)
        except JobNotFound:
            return
    raise JobIdTaken(f"there is a job {job_id.hex} already: leave jobId out, or give another")


async def _document(context: ApiContext, jar: Jar, call: JarCall) -> Mapping[str, Any]:
    """Return the job graph of a jar."""
    if jar.graph is None:
        assert jar.artifact is not None, "a jar has a graph or code"
        described = await scripts.describe(
            context.units,
            context.inspector,
            ScriptCall(jar.artifact, call.arguments, [], "", call.parallelism, {}),
            context.run_settings.data_root,
            context.run_settings.storage,
        )
        return with_configuration(described, call.configuration)
    if call.arguments:
        raise UnsupportedRequest(
            f"{jar.name} is a job graph, which takes no program arguments: leave {call.arguments} "
            "out, or upload a PySpark program"
        )
    document = with_configuration(jar.graph, call.configuration)
    if jar.artifact is not None:
        named = document.get("artifacts")
        document["artifacts"] = [jar.artifact, *(named if isinstance(named, list) else [])]
    return document


def _restore(context: ApiContext, call: JarCall) -> RestoreRequest:
    """Return what the job starts from: a savepoint, or a checkpoint that is named by its path."""
    savepoint, checkpoint = call.savepoint, None
    if savepoint and (found := _CHECKPOINT.fullmatch(savepoint)):
        home = context.run_settings.checkpoints_of(JobId(UUID(hex=found[1])))
        if savepoint.rstrip("/") == below(home, layout.checkpoint_directory(int(found[2]))):
            savepoint, checkpoint = None, f"{found[1]}:{found[2]}"
    return RestoreRequest(savepoint, checkpoint, call.claims, call.allow_non_restored_state)


def _file(jar: Jar) -> dict[str, Any]:
    name = jar.graph.get("name") if jar.graph is not None else None
    entry = jar.name.rsplit(".", 1)[0] if not isinstance(name, str) else name
    what = "a PySpark program" if jar.graph is None else "a job graph"
    if jar.graph is not None and jar.artifact is not None:
        what = "a job graph and its Python packages"
    return {
        "id": jar.id,
        "name": jar.name,
        "uploaded": millis(jar.uploaded_at),
        "entry": [{"name": entry, "description": what}],
    }
