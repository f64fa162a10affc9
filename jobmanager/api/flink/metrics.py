"""Flink's metrics routes: of jobs, tasks, subtasks, runners and the JobManager."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query

from jobmanager.api.context import Ctx, JobIdPath, Uow, hex_id
from jobmanager.api.flink import metric_names
from jobmanager.api.flink.checkpoints import external_path
from jobmanager.api.flink.cluster_slots import read_slots
from jobmanager.api.flink.metric_answers import Metrics, aggregated, answer, listed
from jobmanager.api.flink.task_reads import read_task
from jobmanager.api.flink.vertices import Subtask, figures_of
from jobmanager.api.problems import FLINK
from jobmanager.api.shapes.flink.metrics import AggregatedMetricList, MetricList
from jobmanager.core.errors import MalformedRequest, RunnerNotFound
from jobmanager.core.ids import CheckpointNumber, JobId, RunnerId
from jobmanager.core.life.job import JobStatus
from jobmanager.core.life.operation import OperationKind, OperationStatus
from jobmanager.services.ports.runners import Runner
from jobmanager.services.ports.unit_of_work import UnitOfWork

router = APIRouter(tags=[FLINK])
_MOST_JOBS = 100
"""Of ended jobs whose metrics are aggregated, beside all that live."""
Get = Annotated[str, Query(max_length=20_000, description="Names, separated by commas.")]
Agg = Annotated[str, Query(max_length=100, description="min, max, avg, sum, skew; none: all.")]


@router.get(
    "/jobmanager/metrics",
    summary="Figures of this server",
    response_model=MetricList,
    response_model_exclude_unset=True,
)
async def of_jobmanager(uow: Uow, get: Get = "") -> list[dict[str, Any]]:
    async with uow:
        slots = await read_slots(uow)
        counted = await uow.jobs.counts()
    metrics = metric_names.jobmanager_metrics(
        sum(one.slots for one in slots),
        sum(one.free for one in slots),
        len(slots),
        counted.get(JobStatus.RUNNING, 0),
    )
    return answer(metrics, get)


@router.get(
    "/taskmanagers/metrics",
    summary="Figures of several runners together",
    response_model=AggregatedMetricList,
    response_model_exclude_unset=True,
)
async def of_runners(
    uow: Uow,
    get: Get = "",
    agg: Agg = "",
    taskmanagers: Annotated[str, Query(description="Ids, separated by commas.")] = "",
) -> list[dict[str, Any]]:
    async with uow:
        alive = await uow.runners.alive()
    wanted = set(listed(taskmanagers))
    chosen = [one for one in alive if not wanted or one.id.hex in wanted]
    return aggregated([metric_names.runner_metrics(one.memory) for one in chosen], get, agg)


@router.get(
    "/taskmanagers/{taskmanagerid}/metrics",
    summary="Figures of a runner",
    response_model=MetricList,
    response_model_exclude_unset=True,
)
async def of_runner(taskmanagerid: str, uow: Uow, get: Get = "") -> list[dict[str, Any]]:
    async with uow:
        runner = await runner_named(uow, taskmanagerid)
    return answer(metric_names.runner_metrics(runner.memory), get)


@router.get(
    "/jobs/metrics",
    summary="Figures of several jobs together",
    response_model=AggregatedMetricList,
    response_model_exclude_unset=True,
)
async def of_jobs(
    context: Ctx,
    uow: Uow,
    get: Get = "",
    agg: Agg = "",
    jobs: Annotated[str, Query(description="Ids, separated by commas.")] = "",
) -> list[dict[str, Any]]:
    wanted = {JobId(hex_id("jobs", one)) for one in listed(jobs)}
    async with uow:
        found = [one.id for one in await uow.jobs.listed(_MOST_JOBS)]
        chosen = [one for one in found if not wanted or one in wanted]
        metrics = [await _job_metrics(uow, one, context) for one in chosen]
    return aggregated(metrics, get, agg)


@router.get(
    "/jobs/{jobid}/metrics",
    summary="Figures of a job",
    response_model=MetricList,
    response_model_exclude_unset=True,
)
async def of_job(job_id: JobIdPath, context: Ctx, uow: Uow, get: Get = "") -> list[dict[str, Any]]:
    async with uow:
        metrics = await _job_metrics(uow, job_id, context)
    return answer(metrics, get)


@router.get(
    "/jobs/{jobid}/vertices/{vertexid}/metrics",
    summary="Figures of a task's subtasks",
    response_model=MetricList,
    response_model_exclude_unset=True,
)
async def of_task(
    job_id: JobIdPath, vertexid: str, uow: Uow, get: Get = ""
) -> list[dict[str, Any]]:
    return answer(metric_names.task_metrics(await _subtasks(uow, job_id, vertexid)), get)


@router.get(
    "/jobs/{jobid}/vertices/{vertexid}/jm-operator-metrics",
    summary="Figures of a task's operators on the JobManager, which there are none of",
    response_model=MetricList,
    response_model_exclude_unset=True,
)
async def of_coordinators(
    job_id: JobIdPath, vertexid: str, uow: Uow, get: Get = ""
) -> list[dict[str, Any]]:
    async with uow:
        await read_task(uow, job_id, vertexid)
    return answer({}, get)


@router.get(
    "/jobs/{jobid}/vertices/{vertexid}/subtasks/metrics",
    summary="Figures of a task's subtasks together",
    response_model=AggregatedMetricList,
    response_model_exclude_unset=True,
)
async def of_subtasks(
    job_id: JobIdPath,
    vertexid: str,
    uow: Uow,
    get: Get = "",
    agg: Agg = "",
    subtasks: Annotated[str, Query(description="Such as 0,2,4-6; none: all.")] = "",
) -> list[dict[str, Any]]:
    async with uow:
        read = await read_task(uow, job_id, vertexid)
    progress = read.attempt.progress or ()
    found = metric_names.subtask_metrics(read.plan, progress, read.task)
    chosen = chosen_of(subtasks, len(found))
    whole = None
    if len(chosen) == len(found):
        whole = metric_names.whole_metrics(read.plan, progress, read.task)
    return aggregated([found[one] for one in chosen], get, agg, whole)


@router.get(
    "/jobs/{jobid}/vertices/{vertexid}/subtasks/{subtaskindex}/metrics",
    summary="Figures of a subtask",
    response_model=MetricList,
    response_model_exclude_unset=True,
)
async def of_subtask(
    job_id: JobIdPath, vertexid: str, subtaskindex: Subtask, uow: Uow, get: Get = ""
) -> list[dict[str, Any]]:
    async with uow:
        read = await read_task(uow, job_id, vertexid)
    figures_of(read, subtaskindex)  # raises where there is no such subtask
    found = metric_names.subtask_metrics(read.plan, read.attempt.progress or (), read.task)
    return answer(found[subtaskindex], get)


def chosen_of(text: str, count: int) -> list[int]:
    """Return the subtasks that are named, such as `0,2,4-6`; none are named: all. Raises
    `MalformedRequest`.
    """
    chosen: set[int] = set()
    for one in listed(text):
        first, dash, last = one.partition("-")
        if not _is_number(first) or (dash and not _is_number(last)):
            raise MalformedRequest(f"subtasks is {text!r}: write numbers and ranges, as 0,2,4-6")
        ends = int(first), int(last) if dash else int(first)
        chosen |= set(range(min(ends[0], count), min(ends[1] + 1, count)))
    return sorted(chosen) if listed(text) else list(range(count))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 10


async def runner_named(uow: UnitOfWork, text: str) -> Runner:
    """Return the runner with this id, 32 hexadecimal digits. Raises `RunnerNotFound`."""
    try:
        return await uow.runners.get(RunnerId(UUID(hex=text)))
    except ValueError:
        raise RunnerNotFound(
            f"there is no runner {text!r}: ids have 32 hexadecimal digits"
        ) from None


async def _subtasks(uow: UnitOfWork, job_id: JobId, vertex: str) -> list[Metrics]:
    async with uow:
        read = await read_task(uow, job_id, vertex)
    return metric_names.subtask_metrics(read.plan, read.attempt.progress or (), read.task)


async def _job_metrics(uow: UnitOfWork, job_id: JobId, context: Ctx) -> Metrics:
    stored = await uow.jobs.get(job_id)
    counts = await uow.checkpoints.counts(job_id)
    restorable = await uow.checkpoints.restorable(job_id)
    last = (
        await uow.checkpoints.get(job_id, CheckpointNumber(restorable[-1])) if restorable else None
    )
    files = last.checkpoint.stored if last else None
    restored = [
        one.attempt.running_at or one.attempt.launched_at
        for one in await uow.attempts.of_job(job_id)
        if any(region.origin != "scratch" for region in one.restored or ())
    ]
    rescales = [
        one
        for one in await uow.operations.of_job(job_id)
        if one.operation.kind is OperationKind.RESCALE
        and one.operation.status is OperationStatus.COMPLETED
    ]
    return metric_names.job_metrics(
        stored,
        counts,
        last,
        external_path(stored, files.manifest, context) if files else "n/a",
        restored[-1] if restored else None,
        len(rescales),
        context.clock(),
    )
