"""Flink 2.3's routes about applications. A job is an application of its own, with the same id."""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path

from jobmanager.api.context import Ctx, Uow, hex_id
from jobmanager.api.flink import states
from jobmanager.api.flink.job_manager import job_config
from jobmanager.api.flink.jobs import (
    LISTED_ENDED_JOBS,
    exception_of,
    line_of,
    overview_line,
    state_timestamps,
    times_of,
)
from jobmanager.api.problems import FLINK
from jobmanager.api.shapes.flink.applications import (
    ApplicationExceptions,
    ApplicationPage,
    Applications,
)
from jobmanager.api.shapes.flink.operations import Nothing
from jobmanager.api.shapes.flink.task_managers import Configuration
from jobmanager.core.ids import JobId
from jobmanager.services import jobs

router = APIRouter(tags=[FLINK])
_STATES = {
    "INITIALIZING": "CREATED",
    "CREATED": "CREATED",
    "RUNNING": "RUNNING",
    "RESTARTING": "RUNNING",
    # An application of Flink cannot be suspended: it goes on, and can be resumed or cancelled.
    "SUSPENDED": "RUNNING",
    "FAILING": "FAILING",
    "FAILED": "FAILED",
    "CANCELLING": "CANCELING",
    "CANCELED": "CANCELED",
    "FINISHED": "FINISHED",
}


async def _application_id(
    applicationid: Annotated[str, Path(description="32 hexadecimal digits", examples=["0" * 32])],
) -> JobId:
    return JobId(hex_id("applicationid", applicationid))


ApplicationId = Annotated[JobId, Depends(_application_id)]


@router.get("/applications/overview", summary="All applications", response_model=Applications)
async def overview(context: Ctx, uow: Uow) -> dict[str, Any]:
    async with uow:
        found = await uow.job_reads.lines(LISTED_ENDED_JOBS)
    now = context.clock()
    lines = []
    for one in found:
        state = states.job_state(one)
        counts = {word.lower(): 0 for word in states.JOB_STATES} | {state.lower(): 1}
        line = {"id": one.id.hex, "name": one.graph.name, "status": _STATES[state]}
        lines.append({**line, **times_of(one, now), "jobs": counts})
    return {"applications": lines}


@router.get(
    "/applications/{applicationid}", summary="An application", response_model=ApplicationPage
)
async def details(job_id: ApplicationId, context: Ctx, uow: Uow) -> dict[str, Any]:
    async with uow:
        stored = await uow.jobs.get(job_id)
        attempt = await uow.attempts.get(job_id, stored.job.attempt)
    now = context.clock()
    times = dict.fromkeys(sorted(set(_STATES.values())), 0)
    for word, at in state_timestamps(stored).items():
        if at and word in _STATES:
            times[_STATES[word]] = times[_STATES[word]] or at
    return {
        "id": job_id.hex,
        "name": stored.graph.name,
        "status": _STATES[states.job_state(stored.job)],
        **times_of(stored, now),
        "timestamps": times,
        "jobs": [overview_line(line_of(stored, attempt), now)],
    }


@router.post(
    "/applications/{applicationid}/cancel",
    status_code=HTTPStatus.ACCEPTED,
    summary="Cancel an application: its job",
    response_model=Nothing,
)
async def cancel(job_id: ApplicationId, context: Ctx, uow: Uow) -> dict[str, Any]:
    await jobs.cancel(uow, job_id, "cancelled by a client", context.clock())
    return {}


@router.get(
    "/applications/{applicationid}/exceptions",
    summary="Why attempts of an application's job failed, the latest first",
    response_model=ApplicationExceptions,
)
async def exceptions(job_id: ApplicationId, uow: Uow) -> dict[str, Any]:
    async with uow:
        await uow.jobs.get(job_id)
        attempts = await uow.attempts.of_job(job_id)
    found = [exception_of(one) for one in reversed(attempts) if one.attempt.failure is not None]
    fields = ("exceptionName", "stacktrace", "timestamp")
    entries = [{**{name: one[name] for name in fields}, "jobId": job_id.hex} for one in found]
    return {"exceptionHistory": {"entries": entries}}


@router.get(
    "/applications/{applicationid}/jobmanager/config",
    summary="The server's settings, as they hold for an application",
    response_model=Configuration,
)
async def config(job_id: ApplicationId, context: Ctx, uow: Uow) -> list[dict[str, str]]:
    return await job_config(job_id, context, uow)
