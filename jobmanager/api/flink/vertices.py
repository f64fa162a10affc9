"""Flink's routes about a task of a job: its subtasks, times, runners, back-pressure, watermarks."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query

from jobmanager.api.context import Ctx, JobIdPath, Uow
from jobmanager.api.flink import states
from jobmanager.api.flink.task_reads import TaskRead, aggregate, io_metrics, read_task
from jobmanager.api.flink.times import millis
from jobmanager.api.problems import FLINK
from jobmanager.api.shapes.flink.metrics import MetricList
from jobmanager.api.shapes.flink.vertices import (
    FlameGraph,
    SubtaskAttempt,
    TaskBackPressure,
    TaskDetails,
    TaskRunners,
    TaskTimes,
)
from jobmanager.core.errors import MalformedRequest, TaskNotFound
from jobmanager.core.ids import AttemptNumber
from jobmanager.core.task_figures import TaskFigures, watermark_of

router = APIRouter(tags=[FLINK])
Subtask = Annotated[int, Path(ge=0, le=2**31 - 1)]
Attempt = Annotated[int, Path(ge=0, le=2**31 - 2, description="Flink counts attempts from 0.")]
NO_FLAME_GRAPHS, HAS_ENDED = -2, -3
_OK, _LOW = 0.1, 0.5
"""Up to which ratios Flink calls back-pressure ok, and low."""


@router.get(
    "/jobs/{jobid}/vertices/{vertexid}",
    summary="A task and its subtasks",
    response_model=TaskDetails,
)
async def details(job_id: JobIdPath, vertexid: str, context: Ctx, uow: Uow) -> dict[str, Any]:
    async with uow:
        read = await read_task(uow, job_id, vertexid)
    now, figures = context.clock(), read.figures
    return {
        "id": read.id,
        "name": read.name,
        "parallelism": read.task.parallelism,
        "maxParallelism": read.stored.graph.max_parallelism,
        "now": millis(now),
        "subtasks": [_subtask(read, number, one, context) for number, one in enumerate(figures)],
        "aggregated": aggregate(figures, read, now),
    }


@router.get(
    "/jobs/{jobid}/vertices/{vertexid}/subtasktimes",
    summary="When a task's subtasks came into each state",
    response_model=TaskTimes,
)
async def times(job_id: JobIdPath, vertexid: str, context: Ctx, uow: Uow) -> dict[str, Any]:
    async with uow:
        read = await read_task(uow, job_id, vertexid)
    now = context.clock()
    return {
        "id": read.id,
        "name": read.name,
        "now": millis(now),
        "subtasks": [
            {
                "subtask": number,
                "endpoint": read.endpoint,
                "duration": read.span(now)["duration"],
                "timestamps": read.timestamps(),
            }
            for number in range(read.task.parallelism)
        ],
    }


@router.get(
    "/jobs/{jobid}/vertices/{vertexid}/taskmanagers",
    summary="The runner that runs a task",
    response_model=TaskRunners,
)
async def runners(job_id: JobIdPath, vertexid: str, context: Ctx, uow: Uow) -> dict[str, Any]:
    async with uow:
        read = await read_task(uow, job_id, vertexid)
    now, figures = context.clock(), read.figures
    return {
        "id": read.id,
        "name": read.name,
        "now": millis(now),
        "taskmanagers": [
            {
                "endpoint": read.endpoint,
                "status": read.state,
                **read.span(now),
                "metrics": io_metrics(read.whole, read.running_ms(now) * len(figures)),
                "status-counts": states.counts(
                    states.TASK_STATES, read.state, read.task.parallelism
                ),
                "taskmanager-id": read.runner_id,
                "aggregated": aggregate(figures, read, now),
            }
        ],
    }


@router.get(
    "/jobs/{jobid}/vertices/{vertexid}/watermarks",
    summary="How far a task's input has come",
    response_model=MetricList,
    response_model_exclude_unset=True,
)
async def watermarks(job_id: JobIdPath, vertexid: str, uow: Uow) -> list[dict[str, Any]]:
    async with uow:
        read = await read_task(uow, job_id, vertexid)
    found = watermark_of(read.plan, read.attempt.progress or (), read.task)
    if found is None:
        return []
    return [
        {"id": f"{number}.currentInputWatermark", "value": str(millis(found))}
        for number in range(read.task.parallelism)
    ]


@router.get(
    "/jobs/{jobid}/vertices/{vertexid}/backpressure",
    summary="Whether a task waits for those after it",
    response_model=TaskBackPressure,
    response_model_exclude_unset=True,
)
async def backpressure(job_id: JobIdPath, vertexid: str, context: Ctx, uow: Uow) -> dict[str, Any]:
    """A task is under back-pressure while a batch waits for its sink: all its tasks are done, and
    the next batch cannot begin. While Spark's tasks run, none of them waits for the tasks after it.
    """
    async with uow:
        read = await read_task(uow, job_id, vertexid)
    figures = read.figures
    if any(one.busy_ms_per_second is None for one in figures):
        return {"status": "deprecated"}
    measured_at = read.attempt.progress_at or context.clock()
    subtasks = [_pressure(number, one) for number, one in enumerate(figures)]
    level = _level(max(one["ratio"] for one in subtasks))
    return {
        "status": "ok",
        "backpressureLevel": level,
        "end-timestamp": millis(measured_at),
        "subtasks": subtasks,
        "backpressure-level": level,
    }


@router.get(
    "/jobs/{jobid}/vertices/{vertexid}/flamegraph",
    summary="Flame graphs, which there are none of",
    response_model=FlameGraph,
)
async def flame_graph(
    job_id: JobIdPath,
    vertexid: str,
    uow: Uow,
    kind: Annotated[
        Literal["FULL", "ON_CPU", "OFF_CPU", "full", "on_cpu", "off_cpu"], Query(alias="type")
    ] = "FULL",
    subtaskindex: Annotated[int | None, Query(ge=0, le=2**31 - 1)] = None,
) -> dict[str, Any]:
    """As Flink answers when `rest.flamegraph.enabled` is off."""
    async with uow:
        read = await read_task(uow, job_id, vertexid)
    if subtaskindex is not None and subtaskindex >= read.task.parallelism:
        raise MalformedRequest(f"Invalid subtask index for vertex {vertexid}")
    ended = read.attempt.attempt.status.is_terminal
    return {"endTimestamp": HAS_ENDED if ended else NO_FLAME_GRAPHS, "data": None}


@router.get(
    "/jobs/{jobid}/vertices/{vertexid}/subtasks/{subtaskindex}",
    summary="A subtask in the newest attempt",
    response_model=SubtaskAttempt,
)
async def subtask(
    job_id: JobIdPath, vertexid: str, subtaskindex: Subtask, context: Ctx, uow: Uow
) -> dict[str, Any]:
    async with uow:
        read = await read_task(uow, job_id, vertexid)
    return _subtask(read, subtaskindex, figures_of(read, subtaskindex), context)


@router.get(
    "/jobs/{jobid}/vertices/{vertexid}/subtasks/{subtaskindex}/attempts/{attempt}",
    summary="A subtask in one attempt",
    response_model=SubtaskAttempt,
)
async def subtask_attempt(
    job_id: JobIdPath,
    vertexid: str,
    subtaskindex: Subtask,
    attempt: Attempt,
    context: Ctx,
    uow: Uow,
) -> dict[str, Any]:
    async with uow:
        read = await read_task(uow, job_id, vertexid, AttemptNumber(attempt + 1))
    return _subtask(read, subtaskindex, figures_of(read, subtaskindex), context)


def figures_of(read: TaskRead, subtask: int) -> TaskFigures:
    """Return the figures of one subtask. Raises `TaskNotFound`."""
    if subtask >= read.task.parallelism:
        raise TaskNotFound(
            f"task {read.id} has the subtasks 0 to {read.task.parallelism - 1}, not {subtask}"
        )
    return read.figures[subtask]


def _subtask(read: TaskRead, number: int, figures: TaskFigures, context: Ctx) -> dict[str, Any]:
    now = context.clock()
    span = read.span(now)
    return {
        "subtask": number,
        "status": read.state,
        "attempt": read.attempt.attempt.number - 1,
        "endpoint": read.endpoint,
        **span,
        "metrics": io_metrics(figures, read.running_ms(now)),
        "taskmanager-id": read.runner_id,
        "status-duration": read.durations(now),
        "start_time": span["start-time"],
    }


def _pressure(number: int, figures: TaskFigures) -> dict[str, Any]:
    busy = min(1.0, round((figures.busy_ms_per_second or 0.0) / 1000, 3))
    waits = min(round(1 - busy, 3), round((figures.backpressured_ms_per_second or 0.0) / 1000, 3))
    return {
        "subtask": number,
        "backpressureLevel": _level(waits),
        "ratio": waits,
        "idleRatio": round(1 - busy - waits, 3),
        "busyRatio": busy,
        "backpressure-level": _level(waits),
    }


def _level(ratio: float) -> Literal["ok", "low", "high"]:
    """Return Flink's word for a ratio."""
    return "ok" if ratio <= _OK else "low" if ratio <= _LOW else "high"
