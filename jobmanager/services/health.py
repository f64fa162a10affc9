"""Use case: see whether a running job really runs, and write it down when that changes."""

from dataclasses import replace
from datetime import datetime, timedelta

from jobmanager.core.graph.job_graph import Mode
from jobmanager.core.ids import JobId
from jobmanager.core.life.health import Diagnosis, Limits, RegionVitals, Vitals, diagnose
from jobmanager.core.life.records import HistoryEntry
from jobmanager.core.progress import RegionProgress
from jobmanager.services.ports.jobs import RunningJob
from jobmanager.services.ports.unit_of_work import UnitOfWork


def examine(
    running: RunningJob, limits: Limits, listening_since: datetime, now: datetime
) -> Diagnosis:
    """What is to be said of the job as it was read."""
    stored, attempt = running.stored, running.attempt
    since = max(stored.job.since, listening_since)
    streams = stored.graph.mode is Mode.STREAMING
    vitals = Vitals(
        since=since,
        heard_at=running.heartbeat_at or since,
        regions=[_region(one) for one in attempt.progress or () if one.is_active],
        failed_checkpoints=stored.failed_checkpoints,
        checkpointed_at=running.checkpointed_at,
        checkpointing=stored.graph.checkpointing if streams else None,
    )
    return diagnose(vitals, limits, now)


def is_news(running: RunningJob, found: Diagnosis) -> bool:
    return (running.stored.health, running.stored.health_reason) != (found.health, found.reason)


async def note(
    uow: UnitOfWork, job_id: JobId, limits: Limits, listening_since: datetime, now: datetime
) -> None:
    """Examines the job again, under its lock, and keeps what is found."""
    async with uow:
        await uow.jobs.get_for_update(job_id)
        for running in await uow.jobs.running(only=job_id):
            found = examine(running, limits, listening_since, now)
            if is_news(running, found):
                await _save(uow, running, found, now)
        await uow.commit()


async def _save(uow: UnitOfWork, running: RunningJob, found: Diagnosis, now: datetime) -> None:
    stored = running.stored
    has_changed = found.health is not stored.health
    await uow.jobs.save(
        replace(
            stored,
            health=found.health,
            health_reason=found.reason,
            health_since=now if has_changed else stored.health_since,
        )
    )
    if has_changed:
        cause = found.reason or f"no longer {stored.health}: {stored.health_reason}"
        await uow.history.add(
            stored.id, HistoryEntry(now, f"job_{found.health}", cause, stored.job.attempt)
        )


def _region(said: RegionProgress) -> RegionVitals:
    unmoved = said.unmoved_ms
    return RegionVitals(
        region=said.region,
        unmoved=None if unmoved is None else timedelta(milliseconds=unmoved),
        median_batch=timedelta(milliseconds=said.median_batch_ms),
        batch=said.batch,
        activity=said.activity,
    )
