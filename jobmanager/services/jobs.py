"""Use cases about jobs: submit, cancel, restart. Each one: load, decide, save, commit."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from jobmanager.core.errors import Fault, IdempotencyKeyReused, InvalidJobGraph, JobHasEnded
from jobmanager.core.graph import graph_document
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.ids import CheckpointNumber, JobId
from jobmanager.core.life import job as jobs
from jobmanager.core.life.records import HistoryEntry, RestorePoint, StoredJob
from jobmanager.core.plan.job_plan import assignment
from jobmanager.services import artifacts, lifecycle
from jobmanager.services.ports.unit_of_work import UnitOfWork


def check(document: Mapping[str, Any], parallelism: int | None) -> tuple[JobGraph, int]:
    """The graph, and the parallelism it will run at. Raises `InvalidJobGraph` with all faults."""
    graph = graph_document.parse(document)
    if parallelism is None:
        return graph, graph.parallelism
    if fault := graph_document.parallelism_fault(parallelism, graph.max_parallelism):
        raise InvalidJobGraph([Fault(None, "parallelism", fault)])
    return graph, parallelism


async def submit(
    uow: UnitOfWork,
    job_id: JobId,
    document: Mapping[str, Any],
    parallelism: int | None,
    idempotency_key: str | None,
    now: datetime,
    restore_point: RestorePoint | None = None,
) -> JobId:
    """Accepts a job. Repeated with the same key it returns the job that is there already."""
    graph, in_force = check(document, parallelism)
    async with uow:
        if idempotency_key is not None:
            known = await uow.jobs.with_idempotency_key(idempotency_key)
            if known is not None:
                return _same(known, document, in_force, idempotency_key)
        await artifacts.check(uow, graph)
        job, _ = jobs.submit(graph.restart, now)
        stored = StoredJob(
            id=job_id,
            job=job,
            document=document,
            graph=graph,
            revision=1,
            parallelism=in_force,
            submitted_at=now,
            ended_at=None,
            status_times={job.status: int(now.timestamp() * 1000)},
            next_checkpoint=CheckpointNumber(1),
            next_checkpoint_at=None,
            failed_checkpoints=0,
            restore_point=restore_point,
        )
        await uow.jobs.add(stored, idempotency_key)
        await uow.key_groups.replace(job_id, assignment(graph, in_force))
        cause = f"started from {restore_point.name}" if restore_point else "submitted by a client"
        await uow.history.add(job_id, HistoryEntry(now, "job_submitted", cause))
        await lifecycle.launch_attempt(uow, stored, now)
        await uow.commit()
    return job_id


async def cancel(uow: UnitOfWork, job_id: JobId, reason: str, now: datetime) -> StoredJob:
    """Asks for the job's end; to ask again changes nothing."""
    async with uow:
        stored = await uow.jobs.get_for_update(job_id)
        if stored.job.status in (jobs.JobStatus.FINISHED, jobs.JobStatus.FAILED):
            raise JobHasEnded(f"job {job_id.hex} cannot be cancelled: it is {stored.job.status}")
        moved = await lifecycle.move_job(uow, stored, jobs.JobCancelRequested(now, reason), now)
        await uow.commit()
    return moved


async def restart_due(uow: UnitOfWork, job_id: JobId, now: datetime) -> StoredJob:
    async with uow:
        stored = await uow.jobs.get_for_update(job_id)
        moved = await lifecycle.move_job(uow, stored, jobs.RestartDue(now), now)
        await uow.commit()
    return moved


def _same(known: StoredJob, document: Mapping[str, Any], parallelism: int, key: str) -> JobId:
    if known.document != document or known.parallelism != parallelism:
        raise IdempotencyKeyReused(
            f"Idempotency-Key {key!r} was used for job {known.id.hex} with another job graph"
        )
    return known.id
