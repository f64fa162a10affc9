"""What a new job may start from: found, looked at file by file, and refused if it does not fit.

Everything is checked before anything is stored: a job that is accepted has a
restore point that was whole at that moment.
"""

from dataclasses import replace
from pathlib import Path
from uuid import UUID

from jobmanager.core.checkpoint import CheckpointStatus
from jobmanager.core.errors import SinkInUse, UnusableRestorePoint
from jobmanager.core.graph import FilesSink, JobGraph, Sink
from jobmanager.core.ids import CheckpointNumber, JobId, SavepointId
from jobmanager.core.manifest import FILE_NAME
from jobmanager.core.savepoint import SavepointStatus
from jobmanager.services.ports import RestorePoint, SnapshotStorage, UnitOfWork


async def of_savepoint(uow: UnitOfWork, named: str) -> RestorePoint:
    """`named` is a savepoint's id, or the directory it is in: a file: URI or an absolute path."""
    if len(named) == 32 and "/" not in named:
        try:
            savepoint_id = SavepointId(UUID(hex=named))
        except ValueError:
            raise UnusableRestorePoint(f"{named!r} is neither an id nor a path") from None
        async with uow:
            savepoint = await uow.savepoints.get(savepoint_id)
        if savepoint.status is not SavepointStatus.COMPLETED:
            raise UnusableRestorePoint(f"savepoint {named} is {savepoint.status}")
        root, job = savepoint.directory, savepoint.job_id.hex
    else:
        root, job = _as_uri(named), ""
    return RestorePoint(root, FILE_NAME, f"savepoint {named}", job, savepoint=named)


async def of_checkpoint(uow: UnitOfWork, named: str, storage: str) -> RestorePoint:
    """`named` is `<job id>:<number>`: any checkpoint that is still there."""
    job, _, number = named.partition(":")
    try:
        job_id, checkpoint = JobId(UUID(hex=job)), CheckpointNumber(int(number))
    except ValueError:
        raise UnusableRestorePoint(f"{named!r} is not <job id>:<checkpoint number>") from None
    async with uow:
        found = await uow.checkpoints.get(job_id, checkpoint)
    stored = found.checkpoint.stored
    if found.checkpoint.status is not CheckpointStatus.COMPLETED or stored is None:
        raise UnusableRestorePoint(f"checkpoint {named} is {found.checkpoint.status}")
    if found.discarded_at is not None or found.checkpoint.is_savepoint:
        raise UnusableRestorePoint(f"checkpoint {named} is not there any more")
    root = f"{storage.rstrip('/')}/jobs/{job_id.hex}"
    name = f"checkpoint {checkpoint} of job {job_id.hex}"
    return RestorePoint(root, stored.manifest, name, job_id.hex, checkpoint=checkpoint)


async def check(
    uow: UnitOfWork,
    storage: SnapshotStorage,
    point: RestorePoint,
    graph: JobGraph,
    parallelism: int,
) -> RestorePoint:
    """The restore point, known to be whole and to fit. Raises with what does not."""
    manifest = await storage.read_manifest(point.root, point.manifest)
    for what, theirs, ours in (
        ("max_parallelism", manifest.max_parallelism, graph.max_parallelism),
        ("parallelism", manifest.parallelism, parallelism),
    ):
        if theirs != ours:
            raise UnusableRestorePoint(
                f"{point.name} was written with {what} {theirs}, the job has {ours}: "
                f"submit it with {what} {theirs}"
            )
    verified = await storage.verify_at(point.root, point.manifest)
    if verified.faults:
        raise UnusableRestorePoint(f"{point.name} is damaged: {'; '.join(verified.faults[:5])}")
    point = replace(point, job=manifest.job.hex)
    await _check_sinks(uow, point, graph)
    return point


async def _check_sinks(uow: UnitOfWork, point: RestorePoint, graph: JobGraph) -> None:
    """While the job that wrote it still runs, a fork needs sinks of its own."""
    async with uow:
        if JobId(UUID(hex=point.job)) not in await uow.jobs.live():
            return
        parent = await uow.jobs.get(JobId(UUID(hex=point.job)))
    taken = _paths(parent.graph) & _paths(graph)
    if taken:
        raise SinkInUse(
            f"job {point.job} still writes to {sorted(taken)[0]}: give the fork another path, "
            "or stop that job first"
        )


def _paths(graph: JobGraph) -> set[str]:
    return {
        vertex.connector.path.rstrip("/")
        for vertex in graph.vertices
        if isinstance(vertex, Sink) and isinstance(vertex.connector, FilesSink)
    }


def _as_uri(named: str) -> str:
    if named.startswith("file:"):
        return named.rstrip("/")
    if named.startswith("/"):
        return Path(named).as_uri()
    raise UnusableRestorePoint(
        f"{named!r} is neither the id of a savepoint nor a file: URI nor an absolute path"
    )
