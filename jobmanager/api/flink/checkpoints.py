"""Flink's routes about checkpoints."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Path

from jobmanager.api.context import Ctx, JobIdPath, Uow, hex_id
from jobmanager.api.flink.checkpoint_subtasks import task_checkpoint_subtasks
from jobmanager.api.flink.plan_shapes import task_id
from jobmanager.api.flink.summaries import summary
from jobmanager.api.flink.times import millis
from jobmanager.api.problems import FLINK
from jobmanager.api.shapes.flink.checkpoints import (
    CheckpointLine,
    CheckpointsConfig,
    CheckpointsStatistics,
    TaskCheckpointDetails,
)
from jobmanager.core.durations import milliseconds
from jobmanager.core.errors import TaskNotFound
from jobmanager.core.ids import CheckpointNumber
from jobmanager.core.life.checkpoint import CheckpointStatus
from jobmanager.core.life.records import StoredAttempt, StoredCheckpoint, StoredJob
from jobmanager.core.plan.job_plan import Task
from jobmanager.core.plan.known_plans import plan_of
from jobmanager.core.snapshots import layout
from jobmanager.core.snapshots.storage_uri import below
from jobmanager.protocol.progress_json import restored_to_json

router = APIRouter(tags=[FLINK])
_HISTORY = 100
CheckpointPath = Annotated[int, Path(ge=1, le=2**62)]
_STATUS = {
    CheckpointStatus.IN_PROGRESS: "IN_PROGRESS",
    CheckpointStatus.COMPLETED: "COMPLETED",
    CheckpointStatus.ABORTED: "FAILED",
}


@router.get(
    "/jobs/{jobid}/checkpoints",
    summary="Counts, summary and history of checkpoints",
    response_model=CheckpointsStatistics,
    response_model_exclude_unset=True,
)
async def statistics(job_id: JobIdPath, context: Ctx, uow: Uow) -> dict[str, Any]:
    async with uow:
        stored = await uow.jobs.get(job_id)
        counts = await uow.checkpoints.counts(job_id)
        found = await uow.checkpoints.of_job(job_id, _HISTORY)
        attempts = await uow.attempts.of_job(job_id)
    shapes = [_checkpoint(stored, one, context, with_tasks=False) for one in found]
    done = [one for one in shapes if one["status"] == "COMPLETED"]
    savepoints = [one for one in done if one["is_savepoint"]]
    completed = [one for one in done if not one["is_savepoint"]]
    failed = [one for one in shapes if one["status"] == "FAILED"]
    restores = _restores(stored, attempts, context)
    return {
        "counts": {
            "restored": len(restores),
            "total": sum(counts.values()),
            "in_progress": counts.get(CheckpointStatus.IN_PROGRESS, 0),
            "completed": counts.get(CheckpointStatus.COMPLETED, 0),
            "failed": counts.get(CheckpointStatus.ABORTED, 0),
        },
        "summary": summary(done),
        "latest": {
            "completed": completed[0] if completed else None,
            "savepoint": savepoints[0] if savepoints else None,
            "failed": failed[0] if failed else None,
            "restored": restores[-1] if restores else None,
        },
        "history": shapes,
    }


@router.get(
    "/jobs/{jobid}/checkpoints/config",
    summary="How checkpoints are taken",
    response_model=CheckpointsConfig,
)
async def config(job_id: JobIdPath, uow: Uow) -> dict[str, Any]:
    async with uow:
        stored = await uow.jobs.get(job_id)
    settings = stored.graph.checkpointing
    return {
        "mode": "exactly_once",
        "interval": milliseconds(settings.interval),
        "timeout": milliseconds(settings.timeout),
        "min_pause": milliseconds(settings.min_pause),
        "max_concurrent": 1,
        "externalization": {"enabled": True, "delete_on_cancellation": False},
        "state_backend": "RocksDBStateStoreProvider",
        "checkpoint_storage": "FileSnapshotStorage",
        "unaligned_checkpoints": False,
        "tolerable_failed_checkpoints": settings.tolerable_failures,
        "aligned_checkpoint_timeout": 0,
        "checkpoints_after_tasks_finish": False,
        "state_changelog_enabled": True,
        "changelog_periodic_materialization_interval": 0,
        "changelog_storage": "filesystem",
    }


@router.get(
    "/jobs/{jobid}/checkpoints/details/{checkpointid}",
    summary="A checkpoint in detail",
    response_model=CheckpointLine,
    response_model_exclude_unset=True,
)
async def details(
    job_id: JobIdPath,
    checkpointid: CheckpointPath,
    context: Ctx,
    uow: Uow,
) -> dict[str, Any]:
    async with uow:
        stored = await uow.jobs.get(job_id)
        found = await uow.checkpoints.get(job_id, CheckpointNumber(checkpointid))
    return _checkpoint(stored, found, context, with_tasks=True)


@router.get(
    "/jobs/{jobid}/checkpoints/details/{checkpointid}/subtasks/{vertexid}",
    summary="A task's subtasks in a checkpoint",
    response_model=TaskCheckpointDetails,
    response_model_exclude_unset=True,
)
async def subtasks(
    job_id: JobIdPath, checkpointid: CheckpointPath, vertexid: str, uow: Uow
) -> dict[str, Any]:
    hex_id("vertexid", vertexid)
    async with uow:
        stored = await uow.jobs.get(job_id)
        found = await uow.checkpoints.get(job_id, CheckpointNumber(checkpointid))
    for task in plan_of(stored.graph, stored.parallelism).tasks:
        if task_id(job_id.hex, task) == vertexid:
            shape = _task(found, task)
            if shape["num_subtasks"]:
                return {**shape, **task_checkpoint_subtasks(found, task)}
    raise TaskNotFound(f"checkpoint {checkpointid} of job {job_id.hex} has no task {vertexid}")


def _checkpoint(
    stored: StoredJob, found: StoredCheckpoint, context: Ctx, *, with_tasks: bool
) -> dict[str, Any]:
    checkpoint = found.checkpoint
    files = checkpoint.stored
    status = _STATUS[checkpoint.status]
    shape: dict[str, Any] = {
        "className": status.lower(),
        "id": checkpoint.number,
        "status": status,
        "is_savepoint": checkpoint.is_savepoint,
        "savepointFormat": "NATIVE" if checkpoint.is_savepoint else None,
        "trigger_timestamp": millis(checkpoint.triggered_at),
        **_acknowledged(found, checkpoint.snapshots),
        "checkpointed_size": files.new_bytes if files else 0,
        "state_size": files.bytes if files else 0,
        "num_subtasks": len(checkpoint.snapshots) + len(checkpoint.awaiting),
        "num_acknowledged_subtasks": len(checkpoint.snapshots),
        "checkpoint_type": "SAVEPOINT" if checkpoint.is_savepoint else "CHECKPOINT",
        "tasks": _tasks(stored, found) if with_tasks else {},
    }
    if checkpoint.status is CheckpointStatus.COMPLETED and files is not None:
        shape["external_path"] = external_path(stored, files.manifest, context)
        shape["discarded"] = found.discarded_at is not None
    if checkpoint.ended_at is not None and checkpoint.aborted_because is not None:
        shape["failure_timestamp"] = millis(checkpoint.ended_at)
        shape["failure_message"] = f"{checkpoint.aborted_because}: {checkpoint.detail}"
    return shape


def _acknowledged(found: StoredCheckpoint, refs: Any) -> dict[str, int]:
    """Return when the last of `refs` acked, and how long after the trigger that was."""
    acked = [found.acked_at[ref] for ref in refs]
    latest = millis(max(acked)) if acked else -1
    duration = latest - millis(found.checkpoint.triggered_at) if acked else -1
    return {
        "latest_ack_timestamp": latest,
        "end_to_end_duration": duration,
        "alignment_buffered": 0,
        "processed_data": 0,
        "persisted_data": 0,
    }


def _tasks(stored: StoredJob, found: StoredCheckpoint) -> dict[str, Any]:
    tasks = plan_of(stored.graph, stored.parallelism).tasks
    shapes = {task_id(stored.id.hex, task): _task(found, task) for task in tasks}
    return {name: shape for name, shape in shapes.items() if shape["num_subtasks"]}


def _task(found: StoredCheckpoint, task: Task) -> dict[str, Any]:
    checkpoint = found.checkpoint
    acked = [ref for ref in checkpoint.snapshots if ref.vertex in task.vertices]
    awaited = [ref for ref in checkpoint.awaiting if ref.vertex in task.vertices]
    size = sum(checkpoint.snapshots[ref].bytes for ref in acked)
    return {
        "id": checkpoint.number,
        "status": _STATUS[checkpoint.status],
        **_acknowledged(found, acked),
        "checkpointed_size": size,
        "state_size": size,
        "num_subtasks": len(acked) + len(awaited),
        "num_acknowledged_subtasks": len(acked),
    }


def _restores(
    stored: StoredJob, attempts: Sequence[StoredAttempt], context: Ctx
) -> list[dict[str, Any]]:
    """List the attempts that started from saved state, and the state of each."""
    found = []
    for one in attempts:
        origins = [r for r in one.restored or () if r.origin != "scratch"]
        if origins:
            from_checkpoint = [r.source or 0 for r in origins if r.origin == "checkpoint"]
            number = max(from_checkpoint, default=0)
            found.append(
                {
                    "id": number,
                    "restore_timestamp": millis(one.attempt.running_at or one.attempt.launched_at),
                    "is_savepoint": False,
                    "external_path": _restored_from(stored, number, origins[0].source, context),
                    "headgate-origins": restored_to_json(origins),
                }
            )
    return found


def _restored_from(stored: StoredJob, number: int, attempt: int | None, context: Ctx) -> str:
    """Return where the checkpoint with this number is; 0: the directory of the earlier attempt that
    was continued.
    """
    if number:
        return external_path(stored, layout.checkpoint_manifest(number), context)
    home = below(context.run_settings.storage, layout.job_directory(stored.id))
    return below(home, layout.attempt(attempt or 0))


def external_path(stored: StoredJob, relative: str, context: Ctx) -> str:
    """Return where a checkpoint is; a savepoint's manifest is already given by its whole URI."""
    directory = layout.manifest_directory(relative)
    if directory.startswith("file:") or "://" in directory:
        return directory
    return below(context.run_settings.checkpoints_of(stored.id), directory)
