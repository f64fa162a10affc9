"""Rules that record the health of a running job when it changes."""

from jobmanager.core.graph.job_graph import Mode
from jobmanager.core.life.draft import Draft
from jobmanager.core.life.events import HealthExamined
from jobmanager.core.life.health import Diagnosis, Vitals, diagnose
from jobmanager.core.life.job import JobStatus
from jobmanager.core.life.records import HistoryEntry, StoredAttempt, StoredJob
from jobmanager.core.life.reported_progress import region_vitals


def examine(job: StoredJob, attempt: StoredAttempt, event: HealthExamined) -> Diagnosis:
    since = max(job.job.since, event.listening_since)
    streams = job.graph.mode is Mode.STREAMING
    vitals = Vitals(
        since=since,
        heard_at=event.heartbeat_at or since,
        regions=region_vitals(attempt),
        failed_checkpoints=job.failed_checkpoints,
        checkpointed_at=event.checkpointed_at,
        checkpointing=job.graph.checkpointing if streams else None,
    )
    return diagnose(vitals, event.limits, event.at)


def is_news(job: StoredJob, found: Diagnosis) -> bool:
    return (job.health, job.health_reason) != (found.health, found.reason)


def note_health(draft: Draft, event: HealthExamined) -> None:
    job = draft.life.job
    if job.job.status is not JobStatus.RUNNING:
        return
    found = examine(job, draft.life.attempt, event)
    if not is_news(job, found):
        return
    has_changed = found.health is not job.health
    draft.change_job(
        health=found.health,
        health_reason=found.reason,
        health_since=event.at if has_changed else job.health_since,
    )
    if has_changed:
        cause = found.reason or f"no longer {job.health}: {job.health_reason}"
        entry = HistoryEntry(event.at, f"job_{found.health}", cause, job.job.attempt)
        draft.history.append(entry)
