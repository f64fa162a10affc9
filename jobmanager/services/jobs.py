"""Use cases about jobs: submit, cancel, pause, resume, restart."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from jobmanager.core.errors import Fault, IdempotencyKeyReused, InvalidJobGraph
from jobmanager.core.graph import graph_document
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.graph.schema_pins import without_schemas
from jobmanager.core.ids import JobId
from jobmanager.core.life.events import Submitted
from jobmanager.core.life.job import (
    JobCancelRequested,
    JobPauseRequested,
    JobResumeRequested,
    RestartDue,
)
from jobmanager.core.life.life import begin
from jobmanager.core.life.records import RestorePoint, StoredJob
from jobmanager.services import artifacts, lives, restore_points
from jobmanager.services.lives import Happened
from jobmanager.services.ports.unit_of_work import UnitOfWork


def check(document: Mapping[str, Any], parallelism: int | None) -> tuple[JobGraph, int]:
    """Return the graph and its parallelism. Raises `InvalidJobGraph` with all faults."""
    graph = graph_document.parse(document, is_new=True)
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
    data_root: str = "",
) -> JobId:
    """Accept a job. A repeated call with the same key returns the existing job."""
    graph, in_force = check(document, parallelism)
    async with uow:
        if idempotency_key is not None:
            known = await uow.jobs.with_idempotency_key(idempotency_key)
            if known is not None:
                return _same(known, document, in_force, idempotency_key)
        await artifacts.check(uow, graph)
        if restore_point is not None:
            await restore_points.hold(uow, restore_point)
            await restore_points.hold_sinks(uow, graph, data_root)
        begun = begin(Submitted(now, job_id, document, graph, in_force, restore_point))
        await uow.jobs.add(begun.life.job, idempotency_key, data_root)
        await lives.save(uow, Happened(None, begun, now))
        await uow.commit()
    return job_id


async def submitted_before(
    uow: UnitOfWork, document: Mapping[str, Any], parallelism: int | None, idempotency_key: str
) -> JobId | None:
    """Return the job of an earlier call with this key. Such a call is not checked once more: what
    the job started from may be gone by now, and the job itself writes to its sinks.
    """
    _, in_force = check(document, parallelism)
    async with uow:
        known = await uow.jobs.with_idempotency_key(idempotency_key)
    return None if known is None else _same(known, document, in_force, idempotency_key)


async def cancel(uow: UnitOfWork, job_id: JobId, reason: str, now: datetime) -> StoredJob:
    """Cancel a job; a repeated call changes nothing."""
    return (await lives.happen(uow, job_id, JobCancelRequested(now, reason))).life.job


async def pause(uow: UnitOfWork, job_id: JobId, reason: str, now: datetime) -> StoredJob:
    """Pause a job; a repeated call changes nothing."""
    return (await lives.happen(uow, job_id, JobPauseRequested(now, reason))).life.job


async def resume(uow: UnitOfWork, job_id: JobId, reason: str, now: datetime) -> StoredJob:
    """Let a paused job continue; a repeated call changes nothing."""
    return (await lives.happen(uow, job_id, JobResumeRequested(now, reason))).life.job


async def restart_due(uow: UnitOfWork, job_id: JobId, now: datetime) -> StoredJob:
    return (await lives.happen(uow, job_id, RestartDue(now))).life.job


def _same(known: StoredJob, document: Mapping[str, Any], parallelism: int, key: str) -> JobId:
    is_same = without_schemas(known.document) == without_schemas(document)
    if not is_same or known.parallelism != parallelism:
        raise IdempotencyKeyReused(
            f"Idempotency-Key {key!r} was used for job {known.id.hex} with another job graph"
        )
    return known.id
