"""Lives of jobs in Postgres: locks them, reads them by one query, and saves what changed."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from jobmanager.core.errors import JobNotFound
from jobmanager.core.ids import JobId
from jobmanager.core.life.life import Life
from jobmanager.core.plan.job_plan import assignment
from jobmanager.services.ports.lives import LifeChange, SpokenOf
from jobmanager.store import life_query
from jobmanager.store.changed_rows import ChangedRows
from jobmanager.store.checkpoints import PostgresKeyGroups
from jobmanager.store.jobs import PostgresAttempts, PostgresJobs
from jobmanager.store.savepoints import PostgresOperations, PostgresSavepoints

Key = TypeVar("Key")
Value = TypeVar("Value")

# Every decision about a job is made under this lock: of two simultaneous acks, the second sees what
# the first wrote. NO KEY: rows of other tables that refer to the job can be written meanwhile. The
# lock is taken before the query: a statement that does both sees other rows as they were before.
_LOCK = "SELECT id FROM jobs WHERE id = :id FOR NO KEY UPDATE"
# Locked rows are skipped, so there is no deadlock. A skipped job is looked at again soon.
_LOCK_FREE = "SELECT id FROM jobs WHERE id = ANY(:ids) FOR NO KEY UPDATE SKIP LOCKED"
_LOCK_DUE = """
SELECT id FROM jobs
WHERE status = 'running' AND next_checkpoint_at <= :now
  AND NOT EXISTS (
      SELECT FROM checkpoints c WHERE c.job_id = jobs.id AND c.status = 'in_progress')
ORDER BY next_checkpoint_at LIMIT :limit
FOR NO KEY UPDATE SKIP LOCKED
"""


class PostgresLives:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session
        self._jobs = PostgresJobs(session)
        self._attempts = PostgresAttempts(session)
        self._key_groups = PostgresKeyGroups(session)
        self._savepoints = PostgresSavepoints(session)
        self._operations = PostgresOperations(session)

    async def load(self, job_id: JobId, spoken_of: SpokenOf) -> Life:
        locked = await self._session.scalar(text(_LOCK), {"id": job_id})
        if locked is None:
            raise JobNotFound(f"job {job_id.hex} not found")
        return (await self._read({job_id: spoken_of}))[job_id]

    async def load_free(self, wanted: Mapping[JobId, SpokenOf]) -> Mapping[JobId, Life]:
        locked = await self._session.scalars(text(_LOCK_FREE), {"ids": list(wanted)})
        return await self._read({JobId(one): wanted[JobId(one)] for one in locked})

    async def load_due(self, now: datetime, limit: int) -> Sequence[Life]:
        told = {"now": now, "limit": limit}
        locked = await self._session.scalars(text(_LOCK_DUE), told)
        return list((await self._read({JobId(one): SpokenOf() for one in locked})).values())

    async def save(self, changes: Sequence[LifeChange]) -> None:
        rows = ChangedRows(self._session)
        for one in changes:
            await self._save_job(one, rows)
            await self._save_attempts(one)
            rows.note_checkpoints(one)
        await rows.write()
        for one in changes:
            await self._save_operations(one)

    async def _read(self, asked: Mapping[JobId, SpokenOf]) -> Mapping[JobId, Life]:
        if not asked:
            return {}
        told = {"wanted": life_query.wanted(asked)}
        rows = await self._session.execute(text(life_query.LIVES), told)
        found = (life_query.life_of(row) for row in rows)
        return {life.job.id: life for life in found}

    async def _save_job(self, change: LifeChange, rows: ChangedRows) -> None:
        before, job = change.before.job if change.before else None, change.after.job
        if before is not None and not rows.note_pace(before, job):
            await self._jobs.save(job, before)
        if before is None:
            await self._key_groups.add(job.id, assignment(job.graph, job.parallelism))
        elif (before.graph, before.parallelism) != (job.graph, job.parallelism):
            await self._key_groups.replace(job.id, assignment(job.graph, job.parallelism))

    async def _save_attempts(self, change: LifeChange) -> None:
        """Save ended attempts before new ones: a job has at most one live attempt."""
        job_id, known = change.after.job.id, change.before.attempts if change.before else {}
        for one in _changed(known, change.after.attempts):
            before, number = known.get(one.attempt.number), one.attempt.number
            if before is None:
                await self._attempts.add(job_id, one.attempt)
                continue
            if one.attempt != before.attempt:
                await self._attempts.save(job_id, one.attempt)
            if one.restored is not None and one.restored != before.restored:
                await self._attempts.note_restored(job_id, number, one.restored)
            # Only if this step took a heartbeat: progress is otherwise written without a lock.
            if one.progress_at is not None and one.progress_at != before.progress_at:
                await self._attempts.note_progress(
                    job_id, number, one.progress or (), one.progress_at
                )

    async def _save_operations(self, change: LifeChange) -> None:
        savepoints = change.before.savepoints if change.before else {}
        for savepoint in _changed(savepoints, change.after.savepoints):
            is_known = savepoint.id in savepoints
            await (self._savepoints.save if is_known else self._savepoints.add)(savepoint)
        operations = change.before.operations if change.before else {}
        for operation in _changed(operations, change.after.operations):
            is_known = operation.id in operations
            await (self._operations.save if is_known else self._operations.add)(operation)


def _changed(before: Mapping[Key, Value], after: Mapping[Key, Value]) -> Iterable[Value]:
    """Return what is new or has changed, in order."""
    return [value for key, value in after.items() if before.get(key) != value]
