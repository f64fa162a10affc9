"""Writes what steps changed in the rows of jobs and checkpoints: one statement for each kind of
change, for one job or for hundreds.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from jobmanager.core.ids import CheckpointNumber, SubtaskRef
from jobmanager.core.life.checkpoint import Checkpoint, CheckpointStatus
from jobmanager.core.life.records import StoredJob
from jobmanager.services.ports.lives import LifeChange
from jobmanager.store import mapping

_PACE = """
UPDATE jobs j SET next_checkpoint = r.next_checkpoint, next_checkpoint_at = r.next_checkpoint_at,
       failed_checkpoints = r.failed_checkpoints
FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r(
    job_id uuid, next_checkpoint bigint, next_checkpoint_at timestamptz, failed_checkpoints bigint)
WHERE j.id = r.job_id
"""
_TRIGGER = """
INSERT INTO checkpoints (job_id, number, attempt, kind, status, triggered_at, expires_at)
SELECT job_id, number, attempt, kind, status, triggered_at, expires_at
FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r(
    job_id uuid, number bigint, attempt bigint, kind text, status text,
    triggered_at timestamptz, expires_at timestamptz)
"""
# With its awaited set, which is stored before the barrier can be fetched.
_AWAIT = """
INSERT INTO checkpoint_subtasks (job_id, checkpoint, region, vertex, subtask, kind)
SELECT r.job_id, r.number, a.region, a.vertex, a.subtask, a.kind
FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r(job_id uuid, number bigint, awaited jsonb),
     jsonb_to_recordset(r.awaited) AS a(region text, vertex text, subtask bigint, kind text)
"""
_MOVE = """
UPDATE checkpoints c
SET status = r.status, ended_at = r.ended_at, aborted_because = r.aborted_because,
    detail = r.detail, manifest = r.manifest, batches = r.batches, bytes = r.bytes,
    new_bytes = r.new_bytes, barrier_times = r.barrier_times
FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r(
    job_id uuid, number bigint, status text, ended_at timestamptz, aborted_because text,
    detail text, manifest text, batches jsonb, bytes bigint, new_bytes bigint,
    barrier_times jsonb)
WHERE c.job_id = r.job_id AND c.number = r.number
"""
# All acks at once: a barrier has as many acks as the job has subtasks.
_ACK = """
UPDATE checkpoint_subtasks AS s
SET acked_at = r.at, pointer = a.pointer, version = a.version, bytes = a.bytes,
    key_groups = a.key_groups, offsets = a.offsets, watermark = a.watermark
FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r(
         job_id uuid, number bigint, at timestamptz, acks jsonb),
     jsonb_to_recordset(r.acks) AS a(
         region text, vertex text, subtask bigint, pointer text, version bigint, bytes bigint,
         key_groups int[], offsets jsonb, watermark timestamptz)
WHERE s.job_id = r.job_id AND s.checkpoint = r.number AND s.region = a.region
  AND s.vertex = a.vertex AND s.subtask = a.subtask
  AND s.acked_at IS NULL
"""
# The checkpoint and its acks stay as history.
_DISCARD = """
UPDATE checkpoints c SET discarded_at = r.at
FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r(job_id uuid, number bigint, at timestamptz)
WHERE c.job_id = r.job_id AND c.number = r.number
"""


class ChangedRows:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session
        self._paced: list[Mapping[str, Any]] = []
        self._triggered: list[Mapping[str, Any]] = []
        self._moved: list[Mapping[str, Any]] = []
        self._acked: list[Mapping[str, Any]] = []
        self._discarded: list[Mapping[str, Any]] = []

    def note_pace(self, before: StoredJob, after: StoredJob) -> bool:
        """Note the job's next checkpoint. False: more of the job has changed than that."""
        if after is before:
            return True
        paced = replace(
            before,
            next_checkpoint=after.next_checkpoint,
            next_checkpoint_at=after.next_checkpoint_at,
            failed_checkpoints=after.failed_checkpoints,
        )
        if paced != after:
            return False
        due = after.next_checkpoint_at
        self._paced.append(
            {
                "job_id": str(after.id),
                "next_checkpoint": after.next_checkpoint,
                "next_checkpoint_at": due.isoformat() if due else None,
                "failed_checkpoints": after.failed_checkpoints,
            }
        )
        return True

    def note_checkpoints(self, change: LifeChange) -> None:
        job_id, at = str(change.after.job.id), change.at.isoformat()
        known = change.before.checkpoints if change.before else {}
        for number, checkpoint in change.after.checkpoints.items():
            name = {"job_id": job_id, "number": number}
            before = known.get(number)
            if before is None:
                self._triggered.append({**name, **_triggered(checkpoint)})
            elif checkpoint != before:
                self._moved.append({**name, **_moved(checkpoint)})
                if acks := _new_acks(before, checkpoint):
                    self._acked.append({**name, "at": at, "acks": acks})
        self._discarded += [
            {"job_id": job_id, "number": number, "at": at} for number in _discarded(change)
        ]

    async def write(self) -> None:
        for statement, rows in (
            (_PACE, self._paced),
            (_TRIGGER, self._triggered),
            (_AWAIT, self._triggered),
            (_MOVE, self._moved),
            (_ACK, self._acked),
            (_DISCARD, self._discarded),
        ):
            if rows:
                await self._session.execute(text(statement), {"rows": json.dumps(rows)})


def _triggered(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "attempt": checkpoint.attempt,
        "kind": checkpoint.kind,
        "status": checkpoint.status,
        "triggered_at": checkpoint.triggered_at.isoformat(),
        "expires_at": checkpoint.expires_at.isoformat(),
        "awaited": [{**_named(ref), "kind": kind} for ref, kind in checkpoint.awaiting.items()],
    }


def _moved(checkpoint: Checkpoint) -> dict[str, Any]:
    ended, stored = checkpoint.ended_at, checkpoint.stored
    return {
        "status": checkpoint.status,
        "ended_at": ended.isoformat() if ended else None,
        "aborted_because": checkpoint.aborted_because,
        "detail": checkpoint.detail,
        "manifest": stored.manifest if stored else None,
        "batches": dict(stored.batches) if stored else None,
        "bytes": stored.bytes if stored else None,
        "new_bytes": stored.new_bytes if stored else None,
        "barrier_times": mapping.barrier_times(stored),
    }


def _new_acks(before: Checkpoint, after: Checkpoint) -> list[dict[str, Any]]:
    return [
        {**_named(ref), **mapping.ack_values(snapshot)}
        for ref, snapshot in after.snapshots.items()
        if ref not in before.snapshots
    ]


def _discarded(change: LifeChange) -> list[CheckpointNumber]:
    """Return the checkpoints that this step has made unusable for a restore."""
    if change.before is None:
        return []
    completed = {
        number
        for number, one in change.after.checkpoints.items()
        if one != change.before.checkpoints.get(number) and _is_restorable(one)
    }
    return sorted({*change.before.restorable, *completed} - {*change.after.restorable})


def _is_restorable(checkpoint: Checkpoint) -> bool:
    return checkpoint.status is CheckpointStatus.COMPLETED and not checkpoint.is_savepoint


def _named(ref: SubtaskRef) -> dict[str, Any]:
    return {"region": ref.region, "vertex": ref.vertex, "subtask": ref.subtask}
