"""The native status of a job."""

from dataclasses import asdict

from jobmanager.api.flink import states
from jobmanager.api.shapes.status import (
    CrashCostResponse,
    LastCheckpoint,
    MetaResponse,
    RunnerResponse,
    StatusResponse,
)
from jobmanager.core.crash_cost import crash_cost
from jobmanager.core.durations import milliseconds
from jobmanager.core.graph.meta import JobMeta
from jobmanager.core.life.job import JobStatus
from jobmanager.core.life.records import StoredAttempt, StoredJob
from jobmanager.core.progress import largest_lag_ms
from jobmanager.services.ports.job_reads import JobNow, NewestCheckpoint, RunnerPlace


def status_of(now: JobNow) -> StatusResponse:
    stored, attempt, job = now.stored, now.attempt, now.stored.job
    return StatusResponse(
        status=states.job_state(job),
        desired=job.desired,
        observed=attempt.attempt.status,
        state=stored.state,
        reason=stored.health_reason or job.reason,
        since=stored.health_since if stored.health_reason and stored.health_since else job.since,
        running_since=job.since if job.status is JobStatus.RUNNING else None,
        attempt=job.attempt,
        runner=_runner(now.runner),
        region_states=list(attempt.progress or ()),
        restored=list(attempt.restored or ()),
        last_checkpoint=_last(now.checkpoint),
        restarts=job.failures - (job.status is JobStatus.FAILED),
        lag=largest_lag_ms(attempt.progress or ()),
        meta=meta_shape(stored.graph.meta),
        crash_cost=_crash_cost(stored, attempt),
    )


def _crash_cost(stored: StoredJob, attempt: StoredAttempt) -> CrashCostResponse | None:
    if stored.job.status is not JobStatus.RUNNING:
        return None
    launched = attempt.attempt.launched_at
    found = crash_cost(
        attempt.progress or (), attempt.restored or (), launched, attempt.attempt.running_at
    )
    return None if found is None else CrashCostResponse.model_validate(asdict(found))


def meta_shape(meta: JobMeta) -> MetaResponse:
    return MetaResponse(
        owner=meta.owner,
        description=meta.description,
        runbook=meta.runbook,
        labels=dict(meta.labels),
    )


def _runner(runner: RunnerPlace | None) -> RunnerResponse | None:
    if runner is None:
        return None
    return RunnerResponse(
        id=runner.id,
        host=runner.host,
        pid=runner.pid,
        process=runner.process,
        is_shared=runner.is_shared,
    )


def _last(found: NewestCheckpoint | None) -> LastCheckpoint | None:
    if found is None:
        return None
    return LastCheckpoint(
        number=found.number,
        completed_at=found.ended_at,
        duration_ms=milliseconds(found.ended_at - found.triggered_at),
        bytes=found.bytes,
    )
