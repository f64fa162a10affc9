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
from jobmanager.core.life.records import StoredAttempt, StoredCheckpoint, StoredJob
from jobmanager.core.progress import largest_lag_ms
from jobmanager.services.ports.runners import Runner


def status_of(
    stored: StoredJob,
    attempt: StoredAttempt,
    runner: Runner | None,
    last: StoredCheckpoint | None,
) -> StatusResponse:
    job = stored.job
    return StatusResponse(
        status=states.job_state(job),
        desired=job.desired,
        observed=attempt.attempt.status,
        state=stored.state,
        reason=stored.health_reason or job.reason,
        since=stored.health_since if stored.health_reason and stored.health_since else job.since,
        running_since=job.since if job.status is JobStatus.RUNNING else None,
        attempt=job.attempt,
        runner=_runner(runner),
        region_states=list(attempt.progress or ()),
        restored=list(attempt.restored or ()),
        last_checkpoint=_last(last),
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


def _runner(runner: Runner | None) -> RunnerResponse | None:
    if runner is None:
        return None
    return RunnerResponse(
        id=str(runner.id),
        host=runner.host,
        pid=runner.pid,
        process=runner.process_id,
        is_shared=runner.shares_process,
    )


def _last(found: StoredCheckpoint | None) -> LastCheckpoint | None:
    if found is None or found.checkpoint.ended_at is None:
        return None
    checkpoint = found.checkpoint
    assert checkpoint.ended_at is not None
    return LastCheckpoint(
        number=checkpoint.number,
        completed_at=checkpoint.ended_at,
        duration_ms=milliseconds(checkpoint.ended_at - checkpoint.triggered_at),
        bytes=checkpoint.stored.bytes if checkpoint.stored else 0,
    )
