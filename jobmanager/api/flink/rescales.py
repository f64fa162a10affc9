"""Flink 2.3's routes about past rescales: our operations of the kind `rescale`."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from fastapi import APIRouter

from jobmanager.api.context import Ctx, JobIdPath, Uow
from jobmanager.api.flink.plan_shapes import task_id, task_name
from jobmanager.api.flink.summaries import statistics
from jobmanager.api.flink.times import millis
from jobmanager.api.flink.triggers import trigger_of
from jobmanager.api.problems import FLINK
from jobmanager.api.shapes.flink.rescales import (
    RescaleConfig,
    RescaleDetails,
    RescaleHistory,
    RescalesOverview,
    RescalesSummary,
)
from jobmanager.core.errors import OperationNotFound
from jobmanager.core.life.operation import OperationKind, OperationPhase, OperationStatus
from jobmanager.core.life.records import StoredJob, StoredOperation
from jobmanager.core.plan.known_plans import plan_of
from jobmanager.services.ports.unit_of_work import UnitOfWork

router = APIRouter(tags=[FLINK])
_MOST = 100
_TERMINAL = {
    OperationStatus.IN_PROGRESS: None,
    OperationStatus.COMPLETED: "COMPLETED",
    OperationStatus.FAILED: "FAILED",
    OperationStatus.ROLLED_BACK: "FAILED",
}
_NO_PROFILE = {
    "cpuCores": 0.0,
    "taskHeapMemory": 0,
    "taskOffHeapMemory": 0,
    "managedMemory": 0,
    "networkMemory": 0,
    "extendedResources": {},
}


@router.get(
    "/jobs/{jobid}/rescales/config",
    summary="How rescales are decided",
    response_model=RescaleConfig,
)
async def config(job_id: JobIdPath, uow: Uow) -> dict[str, Any]:
    """A rescale begins when it is asked for: nothing is waited for, and nothing rescales a job by
    itself.
    """
    async with uow:
        await uow.jobs.get(job_id)
    return {
        "rescaleHistoryMax": _MOST,
        "schedulerExecutionMode": None,
        "submissionResourceWaitTimeoutInMillis": 0,
        "submissionResourceStabilizationTimeoutInMillis": 0,
        "slotIdleTimeoutInMillis": 0,
        "executingCooldownTimeoutInMillis": 0,
        "executingResourceStabilizationTimeoutInMillis": 0,
        "maximumDelayForTriggeringRescaleInMillis": 0,
        "rescaleOnFailedCheckpointCount": 0,
    }


@router.get(
    "/jobs/{jobid}/rescales/overview",
    summary="How many rescales there were, and the latest",
    response_model=RescalesOverview,
)
async def overview(job_id: JobIdPath, context: Ctx, uow: Uow) -> dict[str, Any]:
    async with uow:
        stored, found = await _rescales(uow, job_id)
    shapes = [_details(stored, one, len(found) - at, context) for at, one in enumerate(found)]
    return {
        "rescalesCounts": _counts(found),
        "latest": {
            "completed": next((s for s in shapes if s["terminalState"] == "COMPLETED"), None),
            "failed": next((s for s in shapes if s["terminalState"] == "FAILED"), None),
            "ignored": None,
        },
    }


@router.get(
    "/jobs/{jobid}/rescales/summary",
    summary="How long rescales took",
    response_model=RescalesSummary,
)
async def summary(job_id: JobIdPath, uow: Uow) -> dict[str, Any]:
    async with uow:
        _, found = await _rescales(uow, job_id)
    completed = _durations(found, OperationStatus.COMPLETED)
    failed = _durations(found, OperationStatus.FAILED, OperationStatus.ROLLED_BACK)
    return {
        "rescalesCounts": _counts(found),
        "rescalesDurationStatsInMillis": statistics([*completed, *failed]),
        "completedRescalesDurationStatsInMillis": statistics(completed),
        "ignoredRescalesDurationStatsInMillis": statistics([]),
        "failedRescalesDurationStatsInMillis": statistics(failed),
    }


@router.get(
    "/jobs/{jobid}/rescales/history",
    summary="The last rescales, the newest first",
    response_model=RescaleHistory,
)
async def history(job_id: JobIdPath, context: Ctx, uow: Uow) -> list[dict[str, Any]]:
    async with uow:
        stored, found = await _rescales(uow, job_id)
    return [_details(stored, one, len(found) - at, context) for at, one in enumerate(found[:_MOST])]


@router.get(
    "/jobs/{jobid}/rescales/details/{rescaleuuid}",
    summary="A rescale",
    response_model=RescaleDetails,
)
async def details(job_id: JobIdPath, rescaleuuid: str, context: Ctx, uow: Uow) -> dict[str, Any]:
    wanted = trigger_of(rescaleuuid.replace("-", ""))
    async with uow:
        stored, found = await _rescales(uow, job_id)
    for at, one in enumerate(found):
        if one.id == wanted:
            return _details(stored, one, len(found) - at, context)
    raise OperationNotFound(f"job {job_id.hex} has no rescale {rescaleuuid}")


async def _rescales(uow: UnitOfWork, job_id: Any) -> tuple[StoredJob, list[StoredOperation]]:
    """Return the job and its rescales, the newest first."""
    stored = await uow.jobs.get(job_id)
    found = [
        one
        for one in await uow.operations.of_job(job_id)
        if one.operation.kind is OperationKind.RESCALE
    ]
    return stored, sorted(found, key=lambda one: one.created_at, reverse=True)


def _counts(found: Sequence[StoredOperation]) -> dict[str, int]:
    statuses = [one.operation.status for one in found]
    completed = statuses.count(OperationStatus.COMPLETED)
    in_progress = statuses.count(OperationStatus.IN_PROGRESS)
    return {
        "ignored": 0,
        "inProgress": in_progress,
        "completed": completed,
        "failed": len(found) - completed - in_progress,
    }


def _durations(found: Sequence[StoredOperation], *statuses: OperationStatus) -> list[int]:
    return [
        millis(one.operation.ended_at) - millis(one.created_at)
        for one in found
        if one.operation.status in statuses and one.operation.ended_at is not None
    ]


def _details(
    stored: StoredJob, found: StoredOperation, number: int, context: Ctx
) -> dict[str, Any]:
    operation = found.operation
    reason = None
    if operation.status is OperationStatus.COMPLETED:
        reason = "SUCCEEDED"
    elif operation.status is not OperationStatus.IN_PROGRESS:
        reason = "EXCEPTION_OCCURRED"
    error = operation.error
    ended = operation.ended_at
    return {
        "rescaleUuid": found.id.hex,
        "resourceRequirementsUuid": found.id.hex,
        "rescaleAttemptId": number,
        "vertices": _vertices(stored, found),
        "slots": _slots(stored, found),
        "schedulerStates": [
            _phase(one, error if one is operation.phases[-1] else None, context.clock())
            for one in operation.phases
        ],
        "startTimestampInMillis": millis(found.created_at),
        "endTimestampInMillis": millis(ended) if ended else None,
        "terminalState": _TERMINAL[operation.status],
        "triggerCause": "UPDATE_REQUIREMENT",
        "terminatedReason": reason,
    }


def _phase(phase: OperationPhase, error: str | None, now: datetime) -> dict[str, Any]:
    ended = phase.ended_at
    return {
        "state": phase.name,
        "enterTimestampInMillis": millis(phase.started_at),
        "leaveTimestampInMillis": millis(ended) if ended else None,
        "durationInMillis": millis(ended) - millis(phase.started_at) if ended else None,
        "stringifiedException": error,
    }


def _parallelism(found: StoredOperation) -> tuple[int, int, int | None]:
    """Return the parallelism before the rescale, the one asked for, and the one after it."""
    assert found.change is not None, "a rescale changes something"
    before, asked = found.change.before.parallelism, found.change.after.parallelism
    match found.operation.status:
        case OperationStatus.IN_PROGRESS:
            return before, asked, None
        case OperationStatus.COMPLETED:
            return before, asked, asked
        case _:
            return before, asked, before


def _vertices(stored: StoredJob, found: StoredOperation) -> dict[str, Any]:
    before, asked, after = _parallelism(found)
    old = {task.head: task for task in plan_of(stored.graph, before).tasks}
    shapes = {}
    for task in plan_of(stored.graph, asked).tasks:
        was = old[task.head].parallelism
        shapes[task_id(stored.id.hex, task)] = {
            "jobVertexId": task_id(stored.id.hex, task),
            "jobVertexName": task_name(stored.graph, task),
            "slotSharingGroupId": stored.id.hex,
            "slotSharingGroupName": "default",
            "requiredParallelisms": {
                "minParallelism": 1,
                "parallelism": task.parallelism,
                "maxParallelism": stored.graph.max_parallelism,
            },
            "desiredParallelism": task.parallelism,
            "sufficientParallelism": task.parallelism,
            "preRescaleParallelism": was,
            "postRescaleParallelism": (
                None if after is None else task.parallelism if after == asked else was
            ),
        }
    return shapes


def _slots(stored: StoredJob, found: StoredOperation) -> dict[str, Any]:
    before, asked, after = _parallelism(found)
    return {
        stored.id.hex: {
            "slotSharingGroupId": stored.id.hex,
            "slotSharingGroupName": "default",
            "desiredSlots": asked,
            "minimalRequiredSlots": 1,
            "preRescaleSlots": before,
            "postRescaleSlots": after,
            "requestResourceProfile": _NO_PROFILE,
            "acquiredResourceProfile": _NO_PROFILE,
        }
    }
