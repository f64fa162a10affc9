"""Flink's routes about accumulators: what users' code counted in committed batches."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fastapi import APIRouter

from jobmanager.api.context import JobIdPath, Uow
from jobmanager.api.flink.plan_shapes import task_id
from jobmanager.api.flink.task_reads import read_task
from jobmanager.api.flink.vertices import Attempt, Subtask, figures_of
from jobmanager.api.problems import FLINK
from jobmanager.api.shapes.flink.jobs import JobAccumulators, TaskAccumulators
from jobmanager.api.shapes.flink.vertices import AllSubtaskAccumulators, AttemptAccumulators
from jobmanager.core.errors import TaskNotFound
from jobmanager.core.ids import AttemptNumber
from jobmanager.core.life.records import StoredAttempt
from jobmanager.core.plan.known_plans import plan_of
from jobmanager.core.progress import AccumulatorValue, RegionProgress
from jobmanager.services.ports.unit_of_work import UnitOfWork

router = APIRouter(tags=[FLINK])
_WORDS = {"sum": "Counter", "lowest": "Minimum", "highest": "Maximum"}
_MERGE: Mapping[str, Callable[[Any, Any], Any]] = {
    "sum": lambda one, other: one + other,
    "lowest": min,
    "highest": max,
}
_Counted = tuple[str, str, AccumulatorValue]
"""Vertex, name of the accumulator, and its value with the way it is merged."""


@router.get(
    "/jobs/{jobid}/accumulators",
    summary="What users' code counted",
    response_model=JobAccumulators,
)
async def accumulators(job_id: JobIdPath, uow: Uow) -> dict[str, Any]:
    async with uow:
        await uow.jobs.get(job_id)
        counted = await _counted(uow, job_id)
    return {
        "job-accumulators": [],
        "user-task-accumulators": _shown(counted),
        "serialized-user-task-accumulators": {},
    }


@router.get(
    "/jobs/{jobid}/vertices/{vertexid}/accumulators",
    summary="What users' code counted in a task",
    response_model=TaskAccumulators,
)
async def task_accumulators(job_id: JobIdPath, vertexid: str, uow: Uow) -> dict[str, Any]:
    async with uow:
        stored = await uow.jobs.get(job_id)
        counted = await _counted(uow, job_id)
    for task in plan_of(stored.graph, stored.parallelism).tasks:
        if task_id(job_id.hex, task) == vertexid:
            mine = [one for one in counted if one[0] in task.vertices]
            return {"id": vertexid, "user-accumulators": _shown(mine)}
    raise TaskNotFound(f"job {job_id.hex} has no task {vertexid}")


@router.get(
    "/jobs/{jobid}/vertices/{vertexid}/subtasks/accumulators",
    summary="What users' code counted in a task, by subtask",
    response_model=AllSubtaskAccumulators,
)
async def subtask_accumulators(job_id: JobIdPath, vertexid: str, uow: Uow) -> dict[str, Any]:
    """Values are added up over subtasks before they are reported, so no subtask has its own."""
    async with uow:
        read = await read_task(uow, job_id, vertexid)
    attempt = read.attempt.attempt.number - 1
    return {
        "id": read.id,
        "parallelism": read.task.parallelism,
        "subtasks": [
            {"subtask": n, "attempt": attempt, "endpoint": read.endpoint, "user-accumulators": []}
            for n in range(read.task.parallelism)
        ],
    }


@router.get(
    "/jobs/{jobid}/vertices/{vertexid}/subtasks/{subtaskindex}/attempts/{attempt}/accumulators",
    summary="What users' code counted in a subtask",
    response_model=AttemptAccumulators,
)
async def attempt_accumulators(
    job_id: JobIdPath, vertexid: str, subtaskindex: Subtask, attempt: Attempt, uow: Uow
) -> dict[str, Any]:
    """Values are added up over subtasks before they are reported, so no subtask has its own."""
    async with uow:
        read = await read_task(uow, job_id, vertexid, AttemptNumber(attempt + 1))
    figures_of(read, subtaskindex)  # raises where there is no such subtask
    subtask = {"subtask": subtaskindex, "attempt": attempt}
    return {**subtask, "id": f"{read.id}_{subtaskindex}_{attempt}", "user-accumulators": []}


async def _counted(uow: UnitOfWork, job_id: Any) -> list[_Counted]:
    """Return the counts of the newest attempt that reported any; they include earlier attempts'."""
    attempts: Sequence[StoredAttempt] = await uow.attempts.of_job(job_id)
    for attempt in reversed(attempts):
        if attempt.progress:
            return list(_of_regions(attempt.progress))
    return []


def _of_regions(progress: Sequence[RegionProgress]) -> Iterator[_Counted]:
    """Yield each vertex's counts once: a vertex in two regions runs in both, over the same rows."""
    seen: set[str] = set()
    for region in progress:
        mine = region.accumulators
        for vertex, values in mine.items():
            if vertex not in seen:
                yield from ((vertex, name, one) for name, one in values.items())
        seen |= mine.keys()


def _shown(counted: Sequence[_Counted]) -> list[dict[str, Any]]:
    """Merge accumulators of the same name and kind, as Flink does; `vertices` names their
    vertices.
    """
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for vertex, name, one in counted:
        merge, value = one.merge, one.value
        held = found.setdefault((name, merge), {"value": None, "vertices": []})
        held["value"] = value if held["value"] is None else _MERGE[merge](held["value"], value)
        held["vertices"].append(vertex)
    return [
        {
            "name": name,
            "type": ("Double" if isinstance(held["value"], float) else "Long") + _WORDS[merge],
            "value": str(held["value"]),
            "vertices": sorted(held["vertices"]),
        }
        for (name, merge), held in sorted(found.items())
    ]
