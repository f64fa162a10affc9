"""Answers the questions that are asked most often: one statement for each, and plain rows.

The statements are text: to build them of expressions, and rows of classes, took three quarters of
the time of these reads (`bench.reads`).
"""

from collections import Counter, namedtuple
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncSession

from jobmanager.core.errors import JobNotFound
from jobmanager.core.ids import CheckpointNumber, JobId
from jobmanager.core.life.attempt import AttemptStatus
from jobmanager.core.life.checkpoint import AbortReason, CheckpointKind, CheckpointStatus
from jobmanager.core.life.health import Health, shown_state
from jobmanager.core.life.job import JobStatus
from jobmanager.core.life.records import StoredJob
from jobmanager.services.ports.job_reads import (
    CheckpointsOfJob,
    CountedCheckpoint,
    GraphInForce,
    JobAndAttempt,
    JobNow,
    ListedJob,
    ListedState,
    NewestCheckpoint,
    RunnerPlace,
)
from jobmanager.store import mapping

_JobColumns = namedtuple(
    "_JobColumns",
    "id revision parallelism status desired reason since attempt failed_at forgotten_failures "
    "restart_at submitted_at ended_at status_times next_checkpoint next_checkpoint_at "
    "failed_checkpoints restore_point base_attempt streak health health_reason health_since",
)
_AttemptColumns = namedtuple(
    "_AttemptColumns",
    "job_id number status launched_at running_at ended_at kill_at failure detail keeps_runner "
    "restored progress progress_at",
)


def _columns(alias: str, columns: Sequence[str]) -> str:
    return ", ".join(f"{alias}.{name}" for name in columns)


_JOB = f"{_columns('j', _JobColumns._fields)}, j.graph::text"
_JOBS = len(_JobColumns._fields) + 1
_ATTEMPT = _columns("a", _AttemptColumns._fields)
_BOTH = _JOBS + len(_AttemptColumns._fields)
_OF_NEWEST = "JOIN attempts a ON a.job_id = j.id AND a.number = j.attempt"
_WITH_ATTEMPT = text(f"SELECT {_JOB}, {_ATTEMPT} FROM jobs j {_OF_NEWEST} WHERE j.id = :id")
_NOW = text(f"""
SELECT {_JOB}, {_ATTEMPT}, r.id, r.host, r.pid, coalesce(r.process, r.id), r.shares_process,
       c.number, c.triggered_at, c.ended_at, c.bytes
FROM jobs j {_OF_NEWEST}
LEFT JOIN runners r ON r.job_id = j.id AND r.attempt = j.attempt
LEFT JOIN LATERAL (
    SELECT k.number, k.triggered_at, k.ended_at, k.bytes FROM checkpoints k
    WHERE k.job_id = j.id AND k.status = 'completed' AND k.kind <> 'savepoint'
      AND k.discarded_at IS NULL ORDER BY k.number DESC LIMIT 1
) c ON true
WHERE j.id = :id
""")
# Postgres finds the ids first, and looks each of them up in the index.
_LISTED = """j.id = ANY(ARRAY(
    SELECT id FROM jobs WHERE NOT (jobs.status IN ('cancelled', 'finished', 'failed'))
    UNION ALL
    (SELECT id FROM jobs WHERE ended_at IS NOT NULL ORDER BY ended_at DESC LIMIT :ended)))
ORDER BY j.submitted_at, j.id"""
_LINES = text(f"""
SELECT j.id, j.graph::text, j.parallelism, j.status, j.attempt, j.health, j.since, j.submitted_at,
       j.ended_at, a.status
FROM jobs j {_OF_NEWEST} WHERE {_LISTED}
""")
_STATES = text(f"SELECT j.id, j.status, j.attempt FROM jobs j WHERE {_LISTED}")
_RUNNING = text("SELECT id, graph::text, parallelism FROM jobs WHERE status = 'running'")
_JOB_AND_COUNTS = text(f"""
SELECT {_JOB}, j.pruned_checkpoints, (
    SELECT jsonb_object_agg(counted.status, counted.number) FROM (
        SELECT c.status, count(*) AS number FROM checkpoints c WHERE c.job_id = j.id
        GROUP BY c.status) AS counted)
FROM jobs j WHERE j.id = :id
""")
_CHECKPOINTS = text("""
SELECT c.number, c.kind, c.status, c.triggered_at, c.ended_at, c.aborted_because, c.detail,
       c.manifest, coalesce(c.bytes, 0), coalesce(c.new_bytes, 0), c.discarded_at,
       s.acked, s.awaited, s.last_ack_at
FROM (SELECT * FROM checkpoints WHERE job_id = :id ORDER BY number DESC LIMIT :limit) c
CROSS JOIN LATERAL (
    SELECT count(acked_at) AS acked, count(*) - count(acked_at) AS awaited,
           max(acked_at) AS last_ack_at
    FROM checkpoint_subtasks WHERE job_id = :id AND checkpoint = c.number) s
ORDER BY c.number DESC
""")


class PostgresJobReads:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def with_attempt(self, job_id: JobId) -> JobAndAttempt:
        row = await self._one(job_id, _WITH_ATTEMPT)
        return JobAndAttempt(_job(row), _attempt(row))

    async def now(self, job_id: JobId) -> JobNow:
        row = await self._one(job_id, _NOW)
        runner, host, pid, process, is_shared, number, triggered_at, ended_at, size = row[_BOTH:]
        return JobNow(
            _job(row),
            _attempt(row),
            None if runner is None else RunnerPlace(str(runner), host, pid, process, is_shared),
            None
            if number is None
            else NewestCheckpoint(CheckpointNumber(number), triggered_at, ended_at, size or 0),
        )

    async def lines(self, ended: int) -> Sequence[ListedJob]:
        rows = await self._session.execute(_LINES, {"ended": ended})
        return [_line(*row) for row in rows]

    async def states(self, ended: int) -> Sequence[ListedState]:
        rows = await self._session.execute(_STATES, {"ended": ended})
        return [ListedState(JobId(one), JobStatus(status), n) for one, status, n in rows]

    async def running(self) -> Mapping[JobId, GraphInForce]:
        rows = await self._session.execute(_RUNNING)
        return {
            JobId(one): GraphInForce(mapping.graph_of(graph), parallelism)
            for one, graph, parallelism in rows
        }

    async def checkpoints(self, job_id: JobId, limit: int) -> CheckpointsOfJob:
        row = await self._one(job_id, _JOB_AND_COUNTS)
        pruned, counted = row[_JOBS:]
        found = await self._session.execute(_CHECKPOINTS, {"id": job_id, "limit": limit})
        counts = Counter(counted or {}) + Counter(pruned or {})
        return CheckpointsOfJob(_job(row), counts, [_checkpoint(*one) for one in found])

    async def _one(self, job_id: JobId, statement: Any) -> Row[Any]:
        row = (await self._session.execute(statement, {"id": job_id})).first()
        if row is None:
            raise JobNotFound(f"job {job_id.hex} not found")
        return row


def _job(row: Row[Any]) -> StoredJob:
    return mapping.stored_job(_JobColumns._make(row[: _JOBS - 1]), row[_JOBS - 1])


def _attempt(row: Row[Any]) -> Any:
    return mapping.stored_attempt(_AttemptColumns._make(row[_JOBS:_BOTH]))


def _line(
    job_id: Any, graph: str, parallelism: int, status: str, attempt: int, health: str, *more: Any
) -> ListedJob:
    since, submitted_at, ended_at, attempt_status = more
    now = JobStatus(status)
    return ListedJob(
        JobId(job_id),
        mapping.graph_of(graph),
        parallelism,
        now,
        attempt,
        shown_state(now, Health(health)),
        since,
        submitted_at,
        ended_at,
        AttemptStatus(attempt_status),
    )


def _checkpoint(
    number: int, kind: str, status: str, triggered_at: Any, ended_at: Any, because: str | None,
    *more: Any,
) -> CountedCheckpoint:  # fmt: skip
    return CountedCheckpoint(
        CheckpointNumber(number),
        CheckpointKind(kind),
        CheckpointStatus(status),
        triggered_at,
        ended_at,
        None if because is None else AbortReason(because),
        *more,
    )
