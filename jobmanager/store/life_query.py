"""Reads the lives of any number of jobs by one query.

`core.life.draft.Life` defines a life. Rows of other tables come as JSON, one column for each table;
`mapping` turns them into records as it does with rows.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from sqlalchemy import Row

from jobmanager.core.ids import CheckpointNumber, JobId
from jobmanager.core.life.life import Life
from jobmanager.core.life.records import StoredCheckpoint
from jobmanager.services.ports.lives import SpokenOf
from jobmanager.store import mapping, savepoints

NEEDS_RESTORE_POINT = """(
    p.status NOT IN ('cancelled', 'finished', 'failed')
    AND NOT EXISTS (
        SELECT FROM checkpoints own WHERE own.job_id = p.id AND own.status = 'completed'
          AND own.kind <> 'savepoint' AND own.attempt >= p.base_attempt))"""
"""Whether job `p` still needs its restore point, as in `core.life.retention`."""

PINNED = f"""ARRAY(
    SELECT CAST(p.restore_point ->> 'checkpoint' AS bigint) FROM jobs p
    WHERE p.restore_point IS NOT NULL
      AND p.restore_point ->> 'job' = replace(CAST(j.id AS text), '-', '')
      AND p.restore_point ->> 'checkpoint' IS NOT NULL
      AND {NEEDS_RESTORE_POINT})"""
"""The checkpoints of job `j` that other jobs still need, as in `core.life.retention`."""

_RESTORABLE = """ARRAY(
    SELECT k.number FROM checkpoints k
    WHERE k.job_id = j.id AND k.status = 'completed' AND k.kind <> 'savepoint'
      AND k.discarded_at IS NULL ORDER BY k.number)"""
_IS_CLAIMED = "coalesce(CAST(j.restore_point ->> 'claim' AS boolean), false)"
_SHARES_RESTORE_POINT = f"""EXISTS (
    SELECT FROM jobs p
    WHERE p.id <> j.id AND p.restore_point IS NOT NULL AND {NEEDS_RESTORE_POINT}
      AND CASE WHEN j.restore_point ->> 'checkpoint' IS NULL
          THEN p.restore_point ->> 'root' = j.restore_point ->> 'root'
          ELSE p.restore_point ->> 'job' = j.restore_point ->> 'job'
               AND p.restore_point ->> 'checkpoint' = j.restore_point ->> 'checkpoint' END)"""
_ATTEMPTS = """(
    SELECT json_agg(row_to_json(a)) FROM attempts a
    WHERE a.job_id = j.id AND a.number IN (j.attempt, q.attempt))"""
_HAS_LIVE_RUNNER = """EXISTS (
    SELECT FROM runners r
    WHERE r.job_id = j.id AND r.attempt = j.attempt AND r.exited_at IS NULL)"""
_OPERATIONS = """(
    SELECT json_agg(row_to_json(o)) FROM operations o
    WHERE o.job_id = j.id AND o.status = 'in_progress')"""
_CHECKPOINTS = """(
    SELECT json_agg(json_build_object('checkpoint', row_to_json(c), 'subtasks', (
        SELECT json_agg(row_to_json(s) ORDER BY s.region, s.vertex, s.subtask)
        FROM checkpoint_subtasks s WHERE s.job_id = c.job_id AND s.checkpoint = c.number))
        ORDER BY c.number)
    FROM (
        SELECT i.number FROM checkpoints i WHERE i.job_id = j.id AND i.status = 'in_progress'
        UNION SELECT q.checkpoint
    ) AS wanted JOIN checkpoints c ON c.job_id = j.id AND c.number = wanted.number)"""
# A savepoint under way has an operation under way; the first UNION is for late acks.
_SAVEPOINTS = f"""(
    SELECT json_agg(row_to_json(v)) FROM savepoints v WHERE v.id IN (
        SELECT o.savepoint_id FROM operations o
        WHERE o.job_id = j.id AND o.status = 'in_progress'
        UNION SELECT w.id FROM checkpoints c JOIN savepoints w
            ON w.job_id = c.job_id AND w.checkpoint = c.number
        WHERE c.job_id = j.id AND c.number = q.checkpoint AND c.kind = 'savepoint'
        UNION SELECT x.id FROM savepoints x
        WHERE {_IS_CLAIMED} AND x.directory = j.restore_point ->> 'root'))"""
# `restorable` is needed only when a checkpoint completes, and takes longest to read.
LIVES = f"""
SELECT j.id, j.graph::text AS graph, j.revision, j.parallelism, j.status, j.desired, j.reason,
       j.since, j.attempt, j.failed_at, j.forgotten_failures, j.restart_at, j.submitted_at,
       j.ended_at, j.status_times,
       j.next_checkpoint, j.next_checkpoint_at, j.failed_checkpoints, j.restore_point,
       j.base_attempt, j.streak, j.health, j.health_reason, j.health_since,
       {_ATTEMPTS} AS attempts, {_HAS_LIVE_RUNNER} AS has_live_runner,
       {_OPERATIONS} AS operations, {_CHECKPOINTS} AS checkpoints, {_SAVEPOINTS} AS savepoints,
       CASE WHEN q.checkpoint IS NOT NULL THEN {_RESTORABLE} END AS restorable,
       CASE WHEN q.checkpoint IS NOT NULL THEN {PINNED} END AS pinned,
       CASE WHEN {_IS_CLAIMED} AND q.checkpoint IS NOT NULL
            THEN {_SHARES_RESTORE_POINT} ELSE false END AS shares_restore_point
FROM jsonb_to_recordset(CAST(:wanted AS jsonb)) AS q(
    job_id uuid, attempt bigint, checkpoint bigint)
JOIN jobs j ON j.id = q.job_id
"""
_TIMES = frozenset(
    {
        *("launched_at", "running_at", "ended_at", "kill_at", "progress_at", "created_at"),
        *("completed_at", "disposed_at", "triggered_at", "expires_at", "discarded_at"),
        *("acked_at", "watermark"),
    }
)
_IDS = frozenset({"id", "job_id", "savepoint_id"})


def wanted(asked: Mapping[JobId, SpokenOf]) -> str:
    """Make the parameter of `LIVES`."""
    return json.dumps(
        [
            {"job_id": str(job_id), "attempt": one.attempt, "checkpoint": one.checkpoint}
            for job_id, one in asked.items()
        ]
    )


def life_of(row: Row[Any]) -> Life:
    attempts = [mapping.stored_attempt(_row(one)) for one in row.attempts]
    found = [_checkpoint(one) for one in row.checkpoints or ()]
    operations = [savepoints.operation_of(_row(one)) for one in row.operations or ()]
    taken = [savepoints.savepoint_of(_row(one)) for one in row.savepoints or ()]
    return Life(
        job=mapping.stored_job(row, row.graph),
        attempts={one.attempt.number: one for one in attempts},
        has_live_runner=row.has_live_runner,
        operations={one.id: one for one in operations},
        savepoints={one.id: one for one in taken},
        checkpoints={one.checkpoint.number: one.checkpoint for one in found},
        restorable=tuple(CheckpointNumber(number) for number in row.restorable or ()),
        pinned=frozenset(CheckpointNumber(number) for number in row.pinned or ()),
        shares_restore_point=row.shares_restore_point,
    )


def _checkpoint(told: Mapping[str, Any]) -> StoredCheckpoint:
    return mapping.stored_checkpoint(
        _row(told["checkpoint"]), [_row(one) for one in told["subtasks"] or ()]
    )


def _row(values: Mapping[str, Any]) -> Any:
    """Turn a row that came as JSON into a row."""
    return SimpleNamespace(**{name: _value(name, value) for name, value in values.items()})


def _value(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name in _TIMES:
        return datetime.fromisoformat(value)
    return UUID(value) if name in _IDS else value
