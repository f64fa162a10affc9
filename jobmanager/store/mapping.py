"""Converts rows to core values and back."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from jobmanager.core.durations import milliseconds
from jobmanager.core.graph import graph_document
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.ids import (
    AttemptNumber,
    CheckpointNumber,
    JobId,
    RegionId,
    RunnerId,
    SubtaskRef,
    VertexId,
)
from jobmanager.core.life.attempt import Attempt, AttemptStatus
from jobmanager.core.life.checkpoint import (
    AbortReason,
    BarrierTimes,
    Checkpoint,
    CheckpointKind,
    CheckpointStatus,
    Snapshot,
    Stored,
)
from jobmanager.core.life.circuit_breaker import Streak
from jobmanager.core.life.failure import Failure, FailureKind
from jobmanager.core.life.health import Health
from jobmanager.core.life.job import Desired, Job, JobStatus
from jobmanager.core.life.records import RestorePoint, StoredAttempt, StoredCheckpoint, StoredJob
from jobmanager.core.plan.job_plan import SnapshotKind
from jobmanager.protocol.progress_json import progress_from_json, restored_from_json
from jobmanager.services.ports.runners import Runner


def job_values(stored: StoredJob) -> dict[str, Any]:
    job = stored.job
    return {
        "name": stored.graph.name,
        "graph": dict(stored.document),
        "revision": stored.revision,
        "parallelism": stored.parallelism,
        "max_parallelism": stored.graph.max_parallelism,
        "status": job.status,
        "desired": job.desired,
        "reason": job.reason,
        "since": job.since,
        "attempt": job.attempt,
        "failed_at": [at.isoformat() for at in job.failed_at],
        "forgotten_failures": job.forgotten_failures,
        "restart_at": job.restart_at,
        "submitted_at": stored.submitted_at,
        "ended_at": stored.ended_at,
        "status_times": dict(stored.status_times),
        "next_checkpoint": stored.next_checkpoint,
        "next_checkpoint_at": stored.next_checkpoint_at,
        "failed_checkpoints": stored.failed_checkpoints,
        "restore_point": asdict(stored.restore_point) if stored.restore_point else None,
        "base_attempt": stored.base_attempt,
        "streak": asdict(job.streak) if job.streak else None,
        "health": stored.health,
        "health_reason": stored.health_reason,
        "health_since": stored.health_since,
    }


def stored_job(row: Any, text: str | None = None) -> StoredJob:
    """Make a job from a row; `text` is its graph, if the row has it as text."""
    document, graph = _graph_of(json.dumps(row.graph) if text is None else text)
    job = Job(
        status=JobStatus(row.status),
        desired=Desired(row.desired),
        attempt=AttemptNumber(row.attempt),
        reason=row.reason,
        since=row.since,
        restart=graph.restart,
        failed_at=tuple(datetime.fromisoformat(at) for at in row.failed_at),
        forgotten_failures=row.forgotten_failures,
        restart_at=row.restart_at,
        streak=Streak(**row.streak) if row.streak else None,
    )
    return StoredJob(
        id=JobId(row.id),
        job=job,
        document=document,
        graph=graph,
        revision=row.revision,
        parallelism=row.parallelism,
        submitted_at=row.submitted_at,
        ended_at=row.ended_at,
        status_times=row.status_times,
        next_checkpoint=CheckpointNumber(row.next_checkpoint),
        next_checkpoint_at=row.next_checkpoint_at,
        failed_checkpoints=row.failed_checkpoints,
        restore_point=RestorePoint(**row.restore_point) if row.restore_point else None,
        base_attempt=AttemptNumber(row.base_attempt),
        health=Health(row.health),
        health_reason=row.health_reason,
        health_since=row.health_since,
    )


@lru_cache(maxsize=4096)
def _graph_of(text: str) -> tuple[dict[str, Any], JobGraph]:
    """Parse a graph, cached by its text: jobs are loaded often, and graphs hardly ever change."""
    document = json.loads(text)
    return document, graph_document.parse(document)


def graph_of(text: str) -> JobGraph:
    return _graph_of(text)[1]


def attempt_values(attempt: Attempt) -> dict[str, Any]:
    return {
        "status": attempt.status,
        "launched_at": attempt.launched_at,
        "running_at": attempt.running_at,
        "ended_at": attempt.ended_at,
        "kill_at": attempt.kill_at,
        "failure": asdict(attempt.failure) if attempt.failure else None,
        "detail": attempt.detail,
        "keeps_runner": attempt.keeps_runner,
    }


def stored_attempt(row: Any) -> StoredAttempt:
    return StoredAttempt(
        JobId(row.job_id),
        attempt_of(row),
        restored_from_json(row.restored),
        progress_from_json(row.progress),
        row.progress_at,
    )


def attempt_of(row: Any) -> Attempt:
    return Attempt(
        number=AttemptNumber(row.number),
        status=AttemptStatus(row.status),
        launched_at=row.launched_at,
        running_at=row.running_at,
        ended_at=row.ended_at,
        kill_at=row.kill_at,
        failure=_failure(row.failure) if row.failure else None,
        detail=row.detail,
        keeps_runner=row.keeps_runner,
    )


def _failure(values: dict[str, Any]) -> Failure:
    return Failure(**{**values, "kind": FailureKind(values["kind"])})


def runner_values(runner: Runner) -> dict[str, Any]:
    values = asdict(runner)
    fence_after = values.pop("fence_after")
    values["fence_after_ms"] = None if fence_after is None else milliseconds(fence_after)
    return values


def _duration(ms: int | None) -> timedelta | None:
    return None if ms is None else timedelta(milliseconds=ms)


def runner_of(row: Any) -> Runner:
    return Runner(
        id=RunnerId(row.id),
        job_id=JobId(row.job_id),
        attempt=AttemptNumber(row.attempt),
        token_hash=row.token_hash,
        host=row.host,
        log_path=row.log_path,
        launched_at=row.launched_at,
        pid=row.pid,
        process_started_at=row.process_started_at,
        spark_version=row.spark_version,
        registered_at=row.registered_at,
        heartbeat_at=row.heartbeat_at,
        exited_at=row.exited_at,
        exit_description=row.exit_description,
        versions=row.versions,
        memory=row.memory,
        protocol=row.protocol,
        fence_after=_duration(row.fence_after_ms),
        process=row.process,
        # a server of the version before may have started another process, and left this column
        shares_process=row.shares_process and row.process is not None,
        ended_at=row.ended_at,
    )


def checkpoint_values(checkpoint: Checkpoint) -> dict[str, Any]:
    stored = checkpoint.stored
    return {
        "attempt": checkpoint.attempt,
        "kind": checkpoint.kind,
        "status": checkpoint.status,
        "triggered_at": checkpoint.triggered_at,
        "expires_at": checkpoint.expires_at,
        "ended_at": checkpoint.ended_at,
        "aborted_because": checkpoint.aborted_because,
        "detail": checkpoint.detail,
        "manifest": stored.manifest if stored else None,
        "batches": dict(stored.batches) if stored else None,
        "bytes": stored.bytes if stored else None,
        "new_bytes": stored.new_bytes if stored else None,
        "barrier_times": barrier_times(stored),
    }


def barrier_times(stored: Stored | None) -> dict[str, Any] | None:
    if stored is None or stored.times == BarrierTimes():
        return None
    times = stored.times
    return {"waited_ms": dict(times.waited_ms), "snapshot_ms": times.snapshot_ms}


def ack_values(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "pointer": snapshot.pointer,
        "version": snapshot.version,
        "bytes": snapshot.bytes,
        "key_groups": list(snapshot.key_groups),
        "offsets": snapshot.offsets,
        "watermark": snapshot.watermark.isoformat() if snapshot.watermark else None,
    }


def stored_checkpoint(row: Any, subtasks: Sequence[Any]) -> StoredCheckpoint:
    awaiting, snapshots, acked_at = {}, {}, {}
    for one in subtasks:
        ref = SubtaskRef(RegionId(one.region), VertexId(one.vertex), one.subtask)
        if one.acked_at is None:
            awaiting[ref] = SnapshotKind(one.kind)
        else:
            snapshots[ref] = _snapshot(one)
            acked_at[ref] = one.acked_at
    stored = None
    if row.manifest is not None:
        times = BarrierTimes(**row.barrier_times) if row.barrier_times else BarrierTimes()
        stored = Stored(row.manifest, row.batches or {}, row.bytes or 0, row.new_bytes or 0, times)
    checkpoint = Checkpoint(
        number=CheckpointNumber(row.number),
        attempt=AttemptNumber(row.attempt),
        kind=CheckpointKind(row.kind),
        triggered_at=row.triggered_at,
        expires_at=row.expires_at,
        awaiting=awaiting,
        snapshots=snapshots,
        stored=stored,
        status=CheckpointStatus(row.status),
        ended_at=row.ended_at,
        aborted_because=AbortReason(row.aborted_because) if row.aborted_because else None,
        detail=row.detail,
    )
    return StoredCheckpoint(JobId(row.job_id), checkpoint, acked_at, row.discarded_at)


def _snapshot(row: Any) -> Snapshot:
    return Snapshot(
        kind=SnapshotKind(row.kind),
        pointer=row.pointer,
        version=row.version,
        bytes=row.bytes or 0,
        key_groups=tuple(row.key_groups or ()),
        offsets=row.offsets,
        watermark=row.watermark,
    )
