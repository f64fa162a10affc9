"""Flink's routes about jobs."""

from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any, Protocol

from fastapi import APIRouter, Query

from jobmanager.api.context import Ctx, JobIdPath, Uow
from jobmanager.api.flink import states
from jobmanager.api.flink.plan_shapes import plan_document, task_id, task_name
from jobmanager.api.flink.task_reads import io_metrics
from jobmanager.api.flink.times import millis
from jobmanager.api.json_answer import JsonAnswer
from jobmanager.api.problems import FLINK
from jobmanager.api.shapes.flink.jobs import (
    JobConfig,
    JobDetails,
    JobExceptions,
    JobsOverview,
    JobsWithStatus,
)
from jobmanager.api.shapes.flink.operations import Nothing
from jobmanager.api.shapes.flink.plans import JobPlanResponse
from jobmanager.core.errors import UnsupportedRequest
from jobmanager.core.graph.meta import JobMeta
from jobmanager.core.life.records import StoredAttempt, StoredJob
from jobmanager.core.plan.job_plan import Task
from jobmanager.core.plan.known_plans import plan_of
from jobmanager.core.task_figures import task_figures
from jobmanager.services import analyses, jobs
from jobmanager.services.ports.job_reads import ListedJob

router = APIRouter(tags=[FLINK])
LISTED_ENDED_JOBS = 100
"""How many ended jobs are listed, beside all that live."""
_TASK_STATES = tuple(word.lower() for word in states.TASK_STATES)


@router.get(
    "/jobs",
    summary="Ids and states of all live jobs and of the 100 that ended last",
    response_model=JobsWithStatus,
)
async def job_list(uow: Uow) -> JsonAnswer:
    async with uow:
        found = await uow.job_reads.states(LISTED_ENDED_JOBS)
    listed = [{"id": one.id.hex, "status": states.job_state(one)} for one in found]
    return JsonAnswer({"jobs": listed})


@router.get(
    "/jobs/overview",
    summary="All live jobs and the 100 that ended last, a line each",
    response_model=JobsOverview,
)
async def overview(context: Ctx, uow: Uow) -> JsonAnswer:
    async with uow:
        found = await uow.job_reads.lines(LISTED_ENDED_JOBS)
    now = context.clock()
    return JsonAnswer({"jobs": [overview_line(one, now) for one in found]})


@router.get(
    "/jobs/{jobid}",
    summary="A job in detail",
    response_model=JobDetails,
    response_model_exclude_unset=True,
)
async def job(job_id: JobIdPath, context: Ctx, uow: Uow) -> JsonAnswer:
    async with uow:
        found = await uow.job_reads.with_attempt(job_id)
    return JsonAnswer(_detail(found.stored, found.attempt, context.clock()))


@router.patch(
    "/jobs/{jobid}",
    status_code=HTTPStatus.ACCEPTED,
    summary="Cancel a job",
    response_model=Nothing,
)
async def terminate(
    job_id: JobIdPath, context: Ctx, uow: Uow, mode: str = "cancel"
) -> dict[str, Any]:
    if mode.lower() != "cancel":
        raise UnsupportedRequest(f"mode {mode!r} is not supported: use mode=cancel")
    await jobs.cancel(uow, job_id, "cancelled by a client", context.clock())
    return {}


@router.get(
    "/jobs/{jobid}/plan",
    summary="The plan: tasks and how rows travel between them",
    response_model=JobPlanResponse,
    response_model_exclude_unset=True,
)
async def plan(
    job_id: JobIdPath,
    context: Ctx,
    uow: Uow,
    spark: Annotated[bool, Query(description="Spark's own plan of each region, too.")] = False,
) -> dict[str, Any]:
    async with uow:
        stored = await uow.jobs.get(job_id)
    plans = {}
    if spark:
        plans = await analyses.plans_of(
            context.inspector, stored.document, stored.parallelism, context.run_settings
        )
    return {
        "plan": plan_document(job_id.hex, stored.graph, stored.document, stored.parallelism, plans)
    }


@router.get(
    "/jobs/{jobid}/config",
    summary="The job's execution settings",
    response_model=JobConfig,
)
async def config(job_id: JobIdPath, uow: Uow) -> dict[str, Any]:
    async with uow:
        stored = await uow.jobs.get(job_id)
    return {
        "jid": job_id.hex,
        "name": stored.graph.name,
        "execution-config": {
            "restart-strategy": type(stored.graph.restart).__name__,
            "job-parallelism": stored.parallelism,
            "object-reuse-mode": False,
            "user-config": dict(stored.graph.spark),
        },
    }


@router.get(
    "/jobs/{jobid}/exceptions",
    summary="Why attempts failed, the latest first",
    response_model=JobExceptions,
)
async def exceptions(
    job_id: JobIdPath,
    uow: Uow,
    maxExceptions: int = 20,  # noqa: N803
    failureLabelFilter: Annotated[str, Query(description="label:value,…")] = "",  # noqa: N803
) -> dict[str, Any]:
    async with uow:
        await uow.jobs.get(job_id)
        attempts = await uow.attempts.of_job(job_id)
    wanted = {tuple(one.split(":", 1)) for one in failureLabelFilter.split(",") if ":" in one}
    found = [exception_of(one) for one in reversed(attempts) if one.attempt.failure is not None]
    found = [one for one in found if wanted <= set(one["failureLabels"].items())]
    shown = found[: max(maxExceptions, 0)]
    return {"exceptionHistory": {"entries": shown, "truncated": len(shown) < len(found)}}


def overview_line(line: ListedJob, now: datetime) -> dict[str, Any]:
    graph = line.graph
    subtasks = sum(task.parallelism for task in plan_of(graph, line.parallelism).tasks)
    state = states.task_state(line.attempt_status)
    counted = states.counts(_TASK_STATES, state.lower(), subtasks)
    return {
        "jid": line.id.hex,
        "name": graph.name,
        "jobType": graph.mode.upper(),
        "schedulerType": states.scheduler_type(graph.mode),
        **times_of(line, now),
        "state": states.job_state(line),
        "last-modification": millis(line.since),
        "tasks": {"total": subtasks, **counted},
        "pending-operators": 0,
        "headgate-state": line.state,
        "headgate-meta": _meta(graph.meta),
    }


def _meta(meta: JobMeta) -> dict[str, Any]:
    """As `meta_shape`, of which a thousand take longer to make and to write."""
    return {
        "owner": meta.owner,
        "description": meta.description,
        "runbook": meta.runbook,
        "labels": dict(meta.labels),
    }


def line_of(stored: StoredJob, attempt: StoredAttempt) -> ListedJob:
    return ListedJob(
        id=stored.id,
        graph=stored.graph,
        parallelism=stored.parallelism,
        status=stored.job.status,
        attempt=stored.job.attempt,
        state=stored.state,
        since=stored.job.since,
        submitted_at=stored.submitted_at,
        ended_at=stored.ended_at,
        attempt_status=attempt.attempt.status,
    )


def _detail(stored: StoredJob, attempt: StoredAttempt, now: datetime) -> dict[str, Any]:
    plan = plan_of(stored.graph, stored.parallelism)
    state = states.task_state(attempt.attempt.status)
    return {
        "jid": stored.id.hex,
        "application-id": stored.id.hex,
        "name": stored.graph.name,
        "isStoppable": False,
        "state": states.job_state(stored.job),
        "job-type": stored.graph.mode.upper(),
        "schedulerType": states.scheduler_type(stored.graph.mode),
        **times_of(stored, now),
        "maxParallelism": stored.graph.max_parallelism,
        "now": millis(now),
        "timestamps": state_timestamps(stored),
        "vertices": [_vertex(stored, attempt, task, now) for task in plan.tasks],
        "status-counts": states.counts(states.TASK_STATES, state, len(plan.tasks)),
        "plan": plan_document(stored.id.hex, stored.graph, stored.document, stored.parallelism),
        "pending-operators": 0,
    }


def _vertex(stored: StoredJob, attempt: StoredAttempt, task: Task, now: datetime) -> dict[str, Any]:
    state = states.task_state(attempt.attempt.status)
    began, ended = attempt.attempt.launched_at, attempt.attempt.ended_at
    return {
        "id": task_id(stored.id.hex, task),
        "slotSharingGroupId": stored.id.hex,
        "name": task_name(stored.graph, task),
        "maxParallelism": stored.graph.max_parallelism,
        "parallelism": task.parallelism,
        "status": state,
        "start-time": millis(began),
        "end-time": millis(ended) if ended else -1,
        "duration": millis(ended or now) - millis(began),
        "tasks": states.counts(states.TASK_STATES, state, task.parallelism),
        "metrics": _metrics(stored, attempt, task, now),
        "headgate-vertices": list(task.vertices),
    }


def _metrics(
    stored: StoredJob, attempt: StoredAttempt, task: Task, now: datetime
) -> dict[str, Any]:
    """Return what Spark reports of a task; what it does not report is marked as unknown."""
    plan = plan_of(stored.graph, stored.parallelism)
    figures = task_figures(plan, attempt.progress or (), task)
    began, ended = attempt.attempt.running_at, attempt.attempt.ended_at
    running_ms = millis(ended or now) - millis(began) if began else 0
    return io_metrics(figures, running_ms * task.parallelism)


class _JobWithTimes(Protocol):
    @property
    def submitted_at(self) -> datetime: ...
    @property
    def ended_at(self) -> datetime | None: ...


def times_of(stored: _JobWithTimes, now: datetime) -> dict[str, int]:
    ended = stored.ended_at
    return {
        "start-time": millis(stored.submitted_at),
        "end-time": millis(ended) if ended else -1,
        "duration": millis(ended or now) - millis(stored.submitted_at),
    }


def state_timestamps(stored: StoredJob) -> dict[str, int]:
    times = dict.fromkeys(states.JOB_STATES, 0)
    for status, at in stored.status_times.items():
        times[states.state_of(status)] = at
    times["CREATED"] = millis(stored.submitted_at)
    return times


def exception_of(stored: StoredAttempt) -> dict[str, Any]:
    failure = stored.attempt.failure
    assert failure is not None
    return {
        "exceptionName": failure.kind,
        "stacktrace": failure.stack or failure.message,
        "timestamp": millis(stored.attempt.ended_at) if stored.attempt.ended_at else 0,
        "failureLabels": {
            "kind": failure.kind,
            "restartable": str(failure.is_restartable).lower(),
        },
        "taskName": failure.region,
        "endpoint": None,
        "taskManagerId": None,
        "concurrentExceptions": [],
        "headgate-message": failure.message,
        "headgate-attempt": stored.attempt.number,
    }
