"""Flink's routes about checkpoints."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path

from jobmanager.api.context import Ctx, JobIdPath, Uow, hex_id
from jobmanager.api.flink.checkpoint_subtasks import task_checkpoint_subtasks
from jobmanager.api.flink.plan_shapes import task_id
from jobmanager.api.flink.summaries import summary
from jobmanager.api.flink.times import millis
from jobmanager.api.json_answer import JsonAnswer
from jobmanager.api.problems import FLINK
from jobmanager.api.shapes.flink.checkpoints import (
    CheckpointLine,
    CheckpointsConfig,
    CheckpointsStatistics,
    TaskCheckpointDetails,
)
from jobmanager.core.durations import milliseconds
from jobmanager.core.errors import TaskNotFound
from jobmanager.core.ids import CheckpointNumber, SubtaskRef
from jobmanager.core.life.checkpoint import CheckpointStatus
from jobmanager.core.life.records import StoredAttempt, StoredCheckpoint, StoredJob
from jobmanager.core.plan.job_plan import Task
from jobmanager.core.plan.known_plans import plan_of
from jobmanager.core.snapshots import layout
from jobmanager.core.snapshots.storage_uri import below
from jobmanager.protocol.progress_json import restored_to_json
from jobmanager.services.ports.job_reads import CountedCheckpoint

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
async def statistics(job_id: JobIdPath, context: Ctx, uow: Uow) -> JsonAnswer:
    async with uow:
        found = await uow.job_reads.checkpoints(job_id, _HISTORY)
        attempts = await uow.attempts.of_job(job_id)
    stored, counts = found.stored, found.counts
    shapes = [_checkpoint(stored, one, context) for one in found.newest]
    done = [one for one in shapes if one["status"] == "COMPLETED"]
    savepoints = [one for one in done if one["is_savepoint"]]
    completed = [one for one in done if not one["is_savepoint"]]
    failed = [one for one in shapes if one["status"] == "FAILED"]
    restores = _restores(stored, attempts, context)
    return JsonAnswer(
        {
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
    )


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
    return {**_checkpoint(stored, counted(found), context), "tasks": _tasks(stored, found)}


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


def _checkpoint(stored: StoredJob, one: CountedCheckpoint, context: Ctx) -> dict[str, Any]:
    """Return the shape of a checkpoint, without its tasks."""
    status = _STATUS[one.status]
    shape: dict[str, Any] = {
        "className": status.lower(),
        "id": one.number,
        "status": status,
        "is_savepoint": one.is_savepoint,
        "savepointFormat": "NATIVE" if one.is_savepoint else None,
        "trigger_timestamp": millis(one.triggered_at),
        **_acknowledged(one.triggered_at, one.last_ack_at),
        "checkpointed_size": one.new_bytes,
        "state_size": one.bytes,
        "num_subtasks": one.acked + one.awaited,
        "num_acknowledged_subtasks": one.acked,
        "checkpoint_type": "SAVEPOINT" if one.is_savepoint else "CHECKPOINT",
        "tasks": {},
    }
    if one.status is CheckpointStatus.COMPLETED and one.manifest is not None:
        shape["external_path"] = external_path(stored, one.manifest, context)
        shape["discarded"] = one.discarded_at is not None
    if one.ended_at is not None and one.aborted_because is not None:
        shape["failure_timestamp"] = millis(one.ended_at)
        shape["failure_message"] = f"{one.aborted_because}: {one.detail}"
    return shape


def counted(found: StoredCheckpoint) -> CountedCheckpoint:
    """Return the checkpoint with its subtasks counted, as `job_reads` reads it."""
    checkpoint, files = found.checkpoint, found.checkpoint.stored
    return CountedCheckpoint(
        number=checkpoint.number,
        kind=checkpoint.kind,
        status=checkpoint.status,
        triggered_at=checkpoint.triggered_at,
        ended_at=checkpoint.ended_at,
        aborted_because=checkpoint.aborted_because,
        detail=checkpoint.detail,
        manifest=files.manifest if files else None,
        bytes=files.bytes if files else 0,
        new_bytes=files.new_bytes if files else 0,
        discarded_at=found.discarded_at,
        acked=len(checkpoint.snapshots),
        awaited=len(checkpoint.awaiting),
        last_ack_at=_last_ack(found, checkpoint.snapshots),
    )


def _last_ack(found: StoredCheckpoint, refs: Iterable[SubtaskRef]) -> datetime | None:
    return max((found.acked_at[ref] for ref in refs), default=None)


def _acknowledged(triggered_at: datetime, last_ack_at: datetime | None) -> dict[str, int]:
    """Return when the last subtask acked, and how long after the trigger that was."""
    latest = -1 if last_ack_at is None else millis(last_ack_at)
    return {
        "latest_ack_timestamp": latest,
        "end_to_end_duration": -1 if last_ack_at is None else latest - millis(triggered_at),
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
        **_acknowledged(checkpoint.triggered_at, _last_ack(found, acked)),
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
