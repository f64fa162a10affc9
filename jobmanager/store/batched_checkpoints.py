"""Checkpoints of many jobs in Postgres, a few statements for all of them."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncSession

from jobmanager.core.ids import (
    AttemptNumber,
    CheckpointNumber,
    JobId,
    RegionId,
    RunnerId,
    SubtaskRef,
    VertexId,
)
from jobmanager.core.life.checkpoint import Checkpoint, CheckpointKind
from jobmanager.core.plan.job_plan import SnapshotKind
from jobmanager.services.ports.checkpoints import (
    Completed,
    DueCheckpoint,
    DueCheckpoints,
    Triggered,
    Unacked,
)
from jobmanager.store import mapping
from jobmanager.store.checkpoints import ACK

# First the locks, then a look: a statement that does both sees other rows as they were before.
# Skipped where locked: so it is part of no deadlock. Who is skipped is looked at soon again.
_LOCK_DUE = """
SELECT id FROM jobs
WHERE status = 'running' AND next_checkpoint_at <= :now
  AND NOT EXISTS (
      SELECT FROM checkpoints c WHERE c.job_id = jobs.id AND c.status = 'in_progress')
ORDER BY next_checkpoint_at LIMIT :limit
FOR NO KEY UPDATE SKIP LOCKED
"""
_OPERATION_UNDER_WAY = """EXISTS (
    SELECT FROM operations o
    WHERE o.job_id = j.id AND o.status = 'in_progress' AND o.kind <> 'savepoint')"""
_DUE = f"""
SELECT j.id, j.graph::text AS graph, j.parallelism, j.attempt, j.next_checkpoint,
       {_OPERATION_UNDER_WAY} AS is_other
FROM jobs j
WHERE j.id = ANY(:ids) AND NOT EXISTS (
    SELECT FROM checkpoints c WHERE c.job_id = j.id AND c.status = 'in_progress')
"""
_TRIGGER = """
INSERT INTO checkpoints (job_id, number, attempt, kind, status, triggered_at, expires_at)
SELECT job_id, number, attempt, kind, 'in_progress', triggered_at, expires_at
FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r(
    job_id uuid, number bigint, attempt bigint, kind text,
    triggered_at timestamptz, expires_at timestamptz)
"""
_AWAIT = """
INSERT INTO checkpoint_subtasks (job_id, checkpoint, region, vertex, subtask, kind)
SELECT r.job_id, r.number, a.region, a.vertex, a.subtask, a.kind
FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r(job_id uuid, number bigint, awaited jsonb),
     jsonb_to_recordset(r.awaited) AS a(region text, vertex text, subtask bigint, kind text)
"""
_NEXT = """
UPDATE jobs j SET next_checkpoint = r.number + 1, next_checkpoint_at = r.next_at
FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r(
    job_id uuid, number bigint, next_at timestamptz)
WHERE j.id = r.job_id
"""
_LOCK = "SELECT id FROM jobs WHERE id = ANY(:ids) FOR NO KEY UPDATE SKIP LOCKED"
_RESTORABLE = """ARRAY(
    SELECT k.number FROM checkpoints k
    WHERE k.job_id = j.id AND k.status = 'completed' AND k.kind <> 'savepoint'
      AND k.discarded_at IS NULL ORDER BY k.number)"""
# As `store.jobs.pinned` says it.
_PINNED = """ARRAY(
    SELECT CAST(p.restore_point ->> 'checkpoint' AS bigint) FROM jobs p
    WHERE p.restore_point IS NOT NULL
      AND p.restore_point ->> 'job' = replace(CAST(j.id AS text), '-', '')
      AND p.restore_point ->> 'checkpoint' IS NOT NULL
      AND p.status NOT IN ('cancelled', 'finished', 'failed')
      AND NOT EXISTS (
          SELECT FROM checkpoints s WHERE s.job_id = p.id AND s.status = 'completed'
            AND s.kind <> 'savepoint' AND s.attempt >= p.base_attempt))"""
_UNACKED = f"""
SELECT j.id, j.graph::text AS graph, j.next_checkpoint_at,
       r.id AS runner, r.attempt AS runner_attempt, r.token_hash,
       c.number, c.attempt, c.kind, c.triggered_at, c.expires_at,
       awaited.listed AS awaited, {_RESTORABLE} AS restorable, {_PINNED} AS pinned
FROM jsonb_to_recordset(CAST(:asked AS jsonb)) AS a(job_id uuid, number bigint)
JOIN jobs j ON j.id = a.job_id
JOIN checkpoints c ON c.job_id = a.job_id AND c.number = a.number
JOIN runners r ON r.job_id = a.job_id AND r.attempt = c.attempt
CROSS JOIN LATERAL (
    SELECT jsonb_agg(jsonb_build_array(s.region, s.vertex, s.subtask, s.kind)) AS listed,
           bool_or(s.acked_at IS NOT NULL) AS has_acks
    FROM checkpoint_subtasks s WHERE s.job_id = c.job_id AND s.checkpoint = c.number
) AS awaited
WHERE c.status = 'in_progress' AND c.kind <> 'savepoint' AND NOT awaited.has_acks
  AND NOT {_OPERATION_UNDER_WAY}
  AND NOT coalesce(CAST(j.restore_point ->> 'claim' AS boolean), false)
"""
_COMPLETE = """
UPDATE checkpoints c
SET status = 'completed', ended_at = r.at, manifest = r.manifest, batches = r.batches,
    bytes = r.bytes, new_bytes = r.new_bytes
FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r(
    job_id uuid, number bigint, at timestamptz, manifest text, batches jsonb, bytes bigint,
    new_bytes bigint)
WHERE c.job_id = r.job_id AND c.number = r.number
"""
_PACE = """
UPDATE jobs j SET failed_checkpoints = 0, next_checkpoint_at = r.next_at
FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r(job_id uuid, next_at timestamptz)
WHERE j.id = r.job_id
"""
_DISCARD = """
UPDATE checkpoints c SET discarded_at = r.at
FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r(job_id uuid, number bigint, at timestamptz)
WHERE c.job_id = r.job_id AND c.number = r.number
"""


class PostgresRounds:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def due(self, now: datetime, limit: int) -> DueCheckpoints:
        found = await self._session.execute(text(_LOCK_DUE), {"now": now, "limit": limit})
        ids = [row.id for row in found]
        if not ids:
            return DueCheckpoints([], [])
        plain, others = [], []
        for row in await self._session.execute(text(_DUE), {"ids": ids}):
            if row.is_other:
                others.append(JobId(row.id))
                continue
            plain.append(
                DueCheckpoint(
                    job_id=JobId(row.id),
                    graph=mapping.graph_of(row.graph),
                    parallelism=row.parallelism,
                    attempt=AttemptNumber(row.attempt),
                    number=CheckpointNumber(row.next_checkpoint),
                )
            )
        return DueCheckpoints(plain, others)

    async def trigger(self, triggered: Sequence[Triggered]) -> None:
        rows = [
            {
                "job_id": str(one.job_id),
                "number": one.checkpoint.number,
                "attempt": one.checkpoint.attempt,
                "kind": one.checkpoint.kind,
                "triggered_at": one.checkpoint.triggered_at.isoformat(),
                "expires_at": one.checkpoint.expires_at.isoformat(),
                "next_at": one.next_checkpoint_at.isoformat(),
                "awaited": [
                    {**_named(ref), "kind": kind} for ref, kind in one.checkpoint.awaiting.items()
                ],
            }
            for one in triggered
        ]
        await self._execute_each(rows, _TRIGGER, _AWAIT, _NEXT)

    async def unacked(self, asked: Mapping[JobId, CheckpointNumber]) -> Mapping[JobId, Unacked]:
        locked = await self._session.execute(text(_LOCK), {"ids": list(asked)})
        rows = [{"job_id": str(row.id), "number": asked[JobId(row.id)]} for row in locked]
        if not rows:
            return {}
        found = await self._session.execute(text(_UNACKED), {"asked": json.dumps(rows)})
        return {JobId(row.id): _unacked(row) for row in found}

    async def complete(self, completed: Sequence[Completed]) -> None:
        rows = []
        for one in completed:
            stored = one.checkpoint.stored
            assert stored is not None
            rows.append(
                {
                    "job_id": str(one.job_id),
                    "number": one.checkpoint.number,
                    "at": one.at.isoformat(),
                    "manifest": stored.manifest,
                    "batches": dict(stored.batches),
                    "bytes": stored.bytes,
                    "new_bytes": stored.new_bytes,
                    "next_at": one.next_checkpoint_at.isoformat()
                    if one.next_checkpoint_at
                    else None,
                    "acks": [
                        {**_named(ref), **mapping.ack_values(snapshot)}
                        for ref, snapshot in one.checkpoint.snapshots.items()
                    ],
                }
            )
        await self._execute_each(rows, _COMPLETE, ACK, _PACE)
        discarded = [
            {"job_id": str(one.job_id), "number": number, "at": one.at.isoformat()}
            for one in completed
            for number in one.discarded
        ]
        if discarded:
            await self._execute_each(discarded, _DISCARD)

    async def _execute_each(self, rows: Sequence[Mapping[str, Any]], *statements: str) -> None:
        told = {"rows": json.dumps(rows)}
        for statement in statements:
            await self._session.execute(text(statement), told)


def _named(ref: SubtaskRef) -> dict[str, Any]:
    return {"region": ref.region, "vertex": ref.vertex, "subtask": ref.subtask}


def _unacked(row: Row[Any]) -> Unacked:
    checkpoint = Checkpoint(
        number=CheckpointNumber(row.number),
        attempt=AttemptNumber(row.attempt),
        kind=CheckpointKind(row.kind),
        triggered_at=row.triggered_at,
        expires_at=row.expires_at,
        awaiting={
            SubtaskRef(RegionId(region), VertexId(vertex), subtask): SnapshotKind(kind)
            for region, vertex, subtask, kind in row.awaited
        },
    )
    return Unacked(
        job_id=JobId(row.id),
        graph=mapping.graph_of(row.graph),
        runner=RunnerId(row.runner),
        runner_attempt=AttemptNumber(row.runner_attempt),
        token_hash=row.token_hash,
        checkpoint=checkpoint,
        next_checkpoint_at=row.next_checkpoint_at,
        restorable=[CheckpointNumber(number) for number in row.restorable],
        pinned=frozenset(CheckpointNumber(number) for number in row.pinned),
    )
