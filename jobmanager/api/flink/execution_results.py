"""Flink's route that tells how a job ended."""

from typing import Any

from fastapi import APIRouter

from jobmanager.api.context import JobIdPath, Uow
from jobmanager.api.flink.failure_causes import failure_cause
from jobmanager.api.flink.times import millis
from jobmanager.api.problems import FLINK
from jobmanager.api.shapes.flink.execution_results import ExecutionResultResponse
from jobmanager.core.life.job import JobStatus

router = APIRouter(tags=[FLINK])
_STATUS = {
    JobStatus.FINISHED: "SUCCEEDED",
    JobStatus.CANCELLED: "CANCELED",
    JobStatus.FAILED: "FAILED",
}


@router.get(
    "/jobs/{jobid}/execution-result",
    summary="How a job ended",
    response_model=ExecutionResultResponse,
    response_model_exclude_unset=True,
)
async def result(job_id: JobIdPath, uow: Uow) -> dict[str, Any]:
    async with uow:
        stored = await uow.jobs.get(job_id)
        attempt = await uow.attempts.get(job_id, stored.job.attempt)
    if not stored.job.status.is_terminal or stored.ended_at is None:
        return {"status": {"id": "IN_PROGRESS"}}
    began, ended = millis(stored.submitted_at), millis(stored.ended_at)
    told: dict[str, Any] = {
        "id": job_id.hex,
        "name": stored.graph.name,
        "application-status": _STATUS[stored.job.status],
        "accumulator-results": {},
        "net-runtime": ended - began,
        "application-id": job_id.hex,
        "start-time": began,
        "end-time": ended,
    }
    if stored.job.status is JobStatus.FAILED:
        failure = attempt.attempt.failure
        message = failure.message if failure else stored.job.reason
        kind = f"headgate.{failure.kind}" if failure else "headgate.JobFailed"
        told["failure-cause"] = failure_cause(kind, message, failure.stack if failure else "")
    return {"status": {"id": "COMPLETED"}, "job-execution-result": told}
