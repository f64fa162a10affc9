"""The native status of a job."""

from jobmanager.api.flink import states
from jobmanager.api.shapes.status import LastCheckpoint, RunnerResponse, StatusResponse
from jobmanager.core.durations import milliseconds
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
    )


def _runner(runner: Runner | None) -> RunnerResponse | None:
    if runner is None:
        return None
    return RunnerResponse(id=str(runner.id), host=runner.host, pid=runner.pid)


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
