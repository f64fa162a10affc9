"""Pruning in Postgres. Every statement deletes a limited number of rows: nobody waits long for a
lock, and an interrupted run loses nothing.
"""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import CursorResult, text
from sqlalchemy.ext.asyncio import AsyncSession

from jobmanager.core.ids import JobId
from jobmanager.services.ports.pruning import EndedJob
from jobmanager.store.life_query import NEEDS_RESTORE_POINT
from jobmanager.store.tables import PRUNED_RESTARTS

_SAVEPOINTS = """
DELETE FROM savepoints v WHERE v.id IN (
    SELECT s.id FROM savepoints s
    WHERE s.status IN ('failed', 'disposed') AND coalesce(s.disposed_at, s.created_at) < :before
      AND NOT EXISTS (
          SELECT FROM operations o WHERE o.savepoint_id = s.id AND o.status = 'in_progress')
    LIMIT :limit)
"""
_OPERATIONS = """
DELETE FROM operations WHERE id IN (
    SELECT id FROM operations WHERE ended_at < :before LIMIT :limit)
"""
# What is deleted is counted on the job, so that its statistics go on telling the truth.
_CHECKPOINTS = """
WITH old AS (
    SELECT c.ctid AS place
    FROM checkpoints c JOIN jobs j ON j.id = c.job_id
    WHERE c.number < j.next_checkpoint - :keep
      AND CASE WHEN c.kind = 'savepoint'
          THEN c.status <> 'in_progress' AND NOT EXISTS (
              SELECT FROM savepoints v WHERE v.job_id = c.job_id AND v.checkpoint = c.number)
          ELSE c.status = 'aborted' OR (c.status = 'completed' AND c.discarded_at IS NOT NULL) END
    LIMIT :limit
), gone AS (
    -- by place: a join is planned by statistics, and takes minutes where they are old
    DELETE FROM checkpoints c WHERE c.ctid = ANY(ARRAY(SELECT place FROM old))
    RETURNING c.job_id, c.status
), counted AS (
    SELECT job_id, jsonb_object_agg(status, number) AS counts
    FROM (SELECT job_id, status, count(*) AS number FROM gone GROUP BY job_id, status) AS each
    GROUP BY job_id
), noted AS (
    UPDATE jobs j
    SET pruned_checkpoints = jsonb_build_object(
        'completed', coalesce((j.pruned_checkpoints ->> 'completed')::bigint, 0)
            + coalesce((counted.counts ->> 'completed')::bigint, 0),
        'aborted', coalesce((j.pruned_checkpoints ->> 'aborted')::bigint, 0)
            + coalesce((counted.counts ->> 'aborted')::bigint, 0))
    FROM counted WHERE counted.job_id = j.id
    RETURNING j.id
)
SELECT count(*) FROM gone
"""
_ATTEMPTS = """
DELETE FROM attempts a USING (
    SELECT o.job_id, o.number
    FROM jobs j JOIN attempts o ON o.job_id = j.id AND o.number <= j.attempt - :keep
    WHERE j.attempt > :keep AND o.ended_at IS NOT NULL
      AND NOT EXISTS (
          SELECT FROM runners r
          WHERE r.job_id = o.job_id AND r.attempt = o.number AND r.exited_at IS NULL)
      AND NOT EXISTS (
          SELECT FROM checkpoints c WHERE c.job_id = o.job_id AND c.attempt = o.number)
    LIMIT :limit) AS old
WHERE a.job_id = old.job_id AND a.number = old.number
"""
_HISTORY_OF_ENDED = """
DELETE FROM history WHERE id IN (
    SELECT h.id FROM jobs j JOIN history h ON h.job_id = j.id
    WHERE j.ended_at < :before AND h.at < :before LIMIT :limit)
"""
# Of each job no more entries are looked at than are deleted, however many it has.
_HISTORY_OF_LIVE = """
DELETE FROM history WHERE id IN (
    SELECT first.id
    FROM jobs j
    CROSS JOIN LATERAL (
        SELECT n.id FROM history n WHERE n.job_id = j.id
        ORDER BY n.id DESC OFFSET :keep LIMIT 1) AS newest
    CROSS JOIN LATERAL (
        SELECT h.id, h.at FROM history h WHERE h.job_id = j.id AND h.id <= newest.id
        ORDER BY h.id LIMIT :limit) AS first
    WHERE j.status NOT IN ('cancelled', 'finished', 'failed') AND first.at < :before
    LIMIT :limit)
"""
_RETAINED = "c.status = 'completed' AND c.kind <> 'savepoint' AND c.discarded_at IS NULL"
_ENDED_JOBS = f"""
WITH old AS (
    SELECT j.id, j.ended_at FROM jobs j
    WHERE j.ended_at < greatest(
            CAST(:ended_before AS timestamptz),
            (SELECT n.ended_at FROM jobs n WHERE n.ended_at IS NOT NULL
             ORDER BY n.ended_at DESC OFFSET :most - 1 LIMIT 1))
      AND (j.ended_at, j.id) > (:after_at, CAST(:after_id AS uuid))
      AND NOT EXISTS (
          SELECT FROM runners r WHERE r.job_id = j.id AND r.exited_at IS NULL)
      AND NOT EXISTS (SELECT FROM outbox o WHERE o.job_id = j.id)
      AND NOT EXISTS (
          SELECT FROM operations o WHERE o.job_id = j.id AND o.status = 'in_progress')
      AND NOT EXISTS (
          SELECT FROM savepoints v
          WHERE v.job_id = j.id AND v.status IN ('in_progress', 'completed'))
      AND (j.ended_at < CAST(:checkpoints_before AS timestamptz)
           OR NOT EXISTS (SELECT FROM checkpoints c WHERE c.job_id = j.id AND {_RETAINED}))
      AND NOT EXISTS (
          SELECT FROM jobs p
          WHERE p.restore_point IS NOT NULL
            AND p.restore_point ->> 'job' = replace(CAST(j.id AS text), '-', '')
            AND {NEEDS_RESTORE_POINT})
    ORDER BY j.ended_at, j.id LIMIT :limit
), discarded AS (
    UPDATE checkpoints c SET discarded_at = now()
    FROM old WHERE c.job_id = old.id AND {_RETAINED}
)
SELECT id, ended_at FROM old ORDER BY ended_at, id
"""
_NEEDED_PLACES = """
SELECT directory FROM savepoints WHERE status IN ('in_progress', 'completed')
UNION SELECT restore_point ->> 'root' FROM jobs
WHERE restore_point IS NOT NULL AND status NOT IN ('cancelled', 'finished', 'failed')
"""
# The count of restarts must not fall: it is a counter, and a fall would look like a new beginning.
_DELETE_JOBS = """
WITH gone AS (
    DELETE FROM jobs WHERE id = ANY(:ids) AND ended_at IS NOT NULL RETURNING status, failures)
INSERT INTO totals (name, value)
SELECT :total, coalesce(sum(failures), 0) - count(*) FILTER (WHERE status = 'failed') FROM gone
ON CONFLICT (name) DO UPDATE SET value = totals.value + EXCLUDED.value
"""
_FORGOTTEN_RUNNERS = """
SELECT given.id FROM unnest(CAST(:ids AS uuid[])) AS given(id)
WHERE NOT EXISTS (
    SELECT FROM runners r
    WHERE r.id = given.id AND (r.exited_at IS NULL OR r.exited_at >= :before))
AND NOT EXISTS (
    SELECT FROM runners r
    WHERE r.process = given.id AND r.shares_process
    AND (r.exited_at IS NULL OR r.exited_at >= :before))
"""
_BEGINNING = "-infinity"
_NO_ID = "00000000-0000-0000-0000-000000000000"


class PostgresPruning:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def savepoints(self, before: datetime, limit: int) -> int:
        return await self._delete(_SAVEPOINTS, before=before, limit=limit)

    async def operations(self, before: datetime, limit: int) -> int:
        return await self._delete(_OPERATIONS, before=before, limit=limit)

    async def checkpoints(self, keep: int, limit: int) -> int:
        gone = await self._session.execute(text(_CHECKPOINTS), {"keep": keep, "limit": limit})
        return int(gone.scalar_one())

    async def attempts(self, keep: int, limit: int) -> int:
        return await self._delete(_ATTEMPTS, keep=keep, limit=limit)

    async def history_of_ended_jobs(self, before: datetime, limit: int) -> int:
        return await self._delete(_HISTORY_OF_ENDED, before=before, limit=limit)

    async def history_of_live_jobs(self, before: datetime, keep: int, limit: int) -> int:
        return await self._delete(_HISTORY_OF_LIVE, before=before, keep=keep, limit=limit)

    async def ended_jobs(
        self,
        ended_before: datetime,
        most: int,
        checkpoints_before: datetime | None,
        after: EndedJob | None,
        limit: int,
    ) -> Sequence[EndedJob]:
        rows = await self._session.execute(
            text(_ENDED_JOBS),
            {
                "ended_before": ended_before,
                "most": most,
                "checkpoints_before": checkpoints_before,
                "after_at": after.ended_at if after else _BEGINNING,
                "after_id": after.id if after else _NO_ID,
                "limit": limit,
            },
        )
        return [EndedJob(JobId(job_id), ended_at) for job_id, ended_at in rows]

    async def needed_places(self) -> frozenset[str]:
        return frozenset(await self._session.scalars(text(_NEEDED_PLACES)))

    async def delete_jobs(self, jobs: Sequence[JobId]) -> None:
        values = {"ids": list(jobs), "total": PRUNED_RESTARTS}
        await self._session.execute(text(_DELETE_JOBS), values)

    async def forgotten_runners(
        self, runners: Sequence[str], exited_before: datetime
    ) -> frozenset[str]:
        found = await self._session.scalars(
            text(_FORGOTTEN_RUNNERS), {"ids": list(runners), "before": exited_before}
        )
        return frozenset(map(str, found))

    async def _delete(self, statement: str, **values: object) -> int:
        gone = await self._session.execute(text(statement), values)
        assert isinstance(gone, CursorResult)
        return int(gone.rowcount)
