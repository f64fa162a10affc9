"""Flink's names for the states of a job and its tasks."""

from typing import Protocol

from jobmanager.core.life.attempt import AttemptStatus
from jobmanager.core.life.job import JobStatus

JOB_STATES = (
    "INITIALIZING",
    "CREATED",
    "RUNNING",
    "FAILING",
    "FAILED",
    "CANCELLING",
    "CANCELED",
    "FINISHED",
    "RESTARTING",
    "SUSPENDED",
    "RECONCILING",
)
TASK_STATES = (
    "CREATED",
    "SCHEDULED",
    "DEPLOYING",
    "INITIALIZING",
    "RUNNING",
    "FINISHED",
    "CANCELING",
    "CANCELED",
    "FAILED",
    "RECONCILING",
)
_JOB = {
    JobStatus.STARTING: "INITIALIZING",
    JobStatus.RUNNING: "RUNNING",
    JobStatus.RESTARTING: "RESTARTING",
    # Flink has no pause: a job that is suspended runs nothing, and has not ended for good
    JobStatus.PAUSING: "RUNNING",
    JobStatus.PAUSED: "SUSPENDED",
    JobStatus.CANCELLING: "CANCELLING",
    JobStatus.CANCELLED: "CANCELED",
    JobStatus.FINISHED: "FINISHED",
    JobStatus.FAILED: "FAILED",
}
_TASK = {
    AttemptStatus.LAUNCHING: "DEPLOYING",
    AttemptStatus.STARTING: "INITIALIZING",
    AttemptStatus.RUNNING: "RUNNING",
    AttemptStatus.CANCELLING: "CANCELING",
    AttemptStatus.FINISHED: "FINISHED",
    AttemptStatus.CANCELLED: "CANCELED",
    AttemptStatus.FAILED: "FAILED",
}


class StatedJob(Protocol):
    @property
    def status(self) -> JobStatus: ...
    @property
    def attempt(self) -> int: ...


def job_state(job: StatedJob) -> str:
    """Return Flink's state of a job. A job that starts again is RESTARTING until it runs."""
    if job.status is JobStatus.STARTING and job.attempt > 1:
        return "RESTARTING"
    return _JOB[job.status]


def state_of(status: str) -> str:
    return _JOB[JobStatus(status)]


def task_state(status: AttemptStatus) -> str:
    return _TASK[status]


def counts(states: tuple[str, ...], state: str, count: int) -> dict[str, int]:
    """Map every name in `states` to a count: `count` for `state`, 0 for the others."""
    return {one: count if one == state else 0 for one in states}


def scheduler_type(mode: str) -> str:
    """Return Flink's scheduler that does what Headgate does: a job's parallelism can change while
    it runs, and a batch job's stages are planned one after the other.
    """
    return "AdaptiveBatch" if mode == "batch" else "Adaptive"
