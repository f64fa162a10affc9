"""Jobs, attempts and runners in Postgres."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    Select,
    Uuid,
    and_,
    bindparam,
    cast,
    func,
    insert,
    select,
    text,
    tuple_,
    union_all,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import defer

from jobmanager.core.errors import JobNotFound, RunnerNotFound
from jobmanager.core.ids import AttemptNumber, CheckpointNumber, JobId, RunnerId
from jobmanager.core.life.attempt import Attempt
from jobmanager.core.life.checkpoint import CheckpointStatus
from jobmanager.core.life.job import JobStatus
from jobmanager.core.life.records import StoredAttempt, StoredJob
from jobmanager.core.progress import RegionProgress, RestoredRegion
from jobmanager.protocol.progress_json import progress_to_json, restored_to_json
from jobmanager.services.ports.jobs import NotedProgress, RunningJob, WritingJob
from jobmanager.services.ports.runners import Launched, Runner, RunnerAtWork
from jobmanager.store import mapping
from jobmanager.store.life_query import NEEDS_RESTORE_POINT, PINNED
from jobmanager.store.row_updates import update_row
from jobmanager.store.tables import IS_LIVE, AttemptRow, CheckpointRow, JobRow, RunnerRow, table_of

# Locked rows are skipped: a heartbeat never waits, and takes part in no deadlock.
_NOTE_HEARTBEATS = """
    WITH heard AS (
        SELECT id, memory FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r(id uuid, memory jsonb)
    ), free AS (
        SELECT id FROM runners WHERE id IN (SELECT id FROM heard)
        FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE runners SET heartbeat_at = :at, memory = COALESCE(heard.memory, runners.memory)
    FROM heard JOIN free USING (id) WHERE runners.id = heard.id
"""
_NOTE_PROGRESS = """
WITH told AS (
    SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb))
        AS t(job_id uuid, number bigint, progress jsonb)
), free AS (
    SELECT a.job_id, a.number FROM attempts a JOIN told USING (job_id, number)
    WHERE a.ended_at IS NULL
    FOR NO KEY UPDATE OF a SKIP LOCKED
)
UPDATE attempts a SET progress = told.progress, progress_at = :at
FROM told JOIN free USING (job_id, number)
WHERE a.job_id = told.job_id AND a.number = told.number
"""
# In one order for all: two batches never wait for each other.
_NOTE_TOKENS = """
WITH told AS (
    SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb))
        AS t(job_id uuid, number bigint, hash text)
), due AS (
    SELECT a.job_id, a.number, told.hash FROM attempts a JOIN told USING (job_id, number)
    WHERE a.token_hash IS DISTINCT FROM told.hash
    ORDER BY a.job_id, a.number FOR NO KEY UPDATE OF a
)
UPDATE attempts a SET token_hash = due.hash FROM due
WHERE a.job_id = due.job_id AND a.number = due.number
"""
_PINNED_OF = f"SELECT {PINNED} FROM jobs j WHERE j.id = :id"
_STARTED_FROM = f"""
SELECT p.id FROM jobs p WHERE p.restore_point ->> 'root' = :root AND {NEEDS_RESTORE_POINT}
"""
_STARTED_FROM_CHECKPOINT = f"""
SELECT p.id FROM jobs p
WHERE p.restore_point IS NOT NULL AND p.restore_point ->> 'job' = :job
  AND CAST(p.restore_point ->> 'checkpoint' AS bigint) = :checkpoint AND {NEEDS_RESTORE_POINT}
"""

# Made once: to make a statement of expressions takes longer than to send it.
_ADD_JOB = insert(table_of(JobRow))
_ADD_ATTEMPT = insert(table_of(AttemptRow))
_ADD_RUNNER = insert(table_of(RunnerRow))
_JOB = select(table_of(JobRow)).where(JobRow.id == bindparam("job_id"))
_LOCKED_JOB = _JOB.with_for_update(key_share=True)
_ATTEMPT = select(table_of(AttemptRow)).where(
    AttemptRow.job_id == bindparam("job_id"), AttemptRow.number == bindparam("number")
)
_ATTEMPTS = (
    select(table_of(AttemptRow))
    .where(AttemptRow.job_id == bindparam("job_id"))
    .order_by(AttemptRow.number)
)
_ALIVE = select(table_of(RunnerRow)).where(RunnerRow.exited_at.is_(None))


class PostgresJobs:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def add(
        self, job: StoredJob, idempotency_key: str | None, data_root: str | None = None
    ) -> None:
        values = {**mapping.job_values(job), "data_root": data_root}
        values |= {"id": job.id, "idempotency_key": idempotency_key}
        await self._session.execute(_ADD_JOB, values)

    async def lock_outputs(self) -> None:
        lock = func.pg_advisory_xact_lock(func.hashtextextended("outputs of jobs", 0))
        await self._session.execute(select(lock))

    async def writing(self) -> Sequence[WritingJob]:
        ended = [status for status in JobStatus if status.is_terminal]
        rows = await self._session.scalars(select(JobRow).where(JobRow.status.not_in(ended)))
        return [
            WritingJob(JobId(row.id), mapping.stored_job(row).graph, row.data_root) for row in rows
        ]

    async def get(self, job_id: JobId) -> StoredJob:
        return await self._one(job_id, _JOB)

    async def get_for_update(self, job_id: JobId) -> StoredJob:
        # Every decision about a job is made under this lock: of two simultaneous acks, the second
        # sees what the first wrote. NO KEY: rows of other tables that refer to the job can be
        # written meanwhile.
        return await self._one(job_id, _LOCKED_JOB)

    async def _one(self, job_id: JobId, statement: Any) -> StoredJob:
        row = (await self._session.execute(statement, {"job_id": job_id})).first()
        if row is None:
            raise JobNotFound(f"job {job_id.hex} not found")
        return mapping.stored_job(row)

    async def with_idempotency_key(self, key: str) -> StoredJob | None:
        # Of two simultaneous submissions with the same key, the second waits here for the first to
        # commit, and then finds its job.
        lock = func.pg_advisory_xact_lock(func.hashtextextended(key, 0))
        await self._session.execute(select(lock))
        row = await self._session.scalar(select(JobRow).where(JobRow.idempotency_key == key))
        return mapping.stored_job(row) if row else None

    async def save(self, job: StoredJob, before: StoredJob) -> None:
        values = mapping.job_values(job)
        if job.document is before.document:
            del values["graph"]  # long, and it hardly ever changes
        await update_row(self._session, JobRow, {"id": job.id}, values)

    async def all(self) -> Sequence[StoredJob]:
        rows = await self._session.scalars(select(JobRow).order_by(JobRow.submitted_at))
        return [mapping.stored_job(row) for row in rows]

    async def listed(self, ended: int) -> Sequence[StoredJob]:
        """All jobs that live, and so many of those that have ended: the newest."""
        rows = await self._session.scalars(_listed(ended))
        return [mapping.stored_job(row) for row in rows]

    async def counts(self) -> Mapping[JobStatus, int]:
        rows = await self._session.execute(
            select(JobRow.status, func.count()).group_by(JobRow.status)
        )
        return {JobStatus(status): int(count) for status, count in rows}

    async def live(self) -> Sequence[JobId]:
        found = await self._session.scalars(select(JobRow.id).where(IS_LIVE))
        return [JobId(one) for one in found]

    async def restart_due(self, now: datetime) -> Sequence[JobId]:
        found = await self._session.scalars(
            select(JobRow.id).where(JobRow.status == JobStatus.RESTARTING, JobRow.restart_at <= now)
        )
        return [JobId(one) for one in found]

    async def running(self, only: JobId | None = None) -> Sequence[RunningJob]:
        """Return all running jobs, or only one, with what is needed to judge their health."""
        checkpointed_at = (
            select(CheckpointRow.ended_at)
            .where(
                CheckpointRow.job_id == JobRow.id,
                CheckpointRow.status == CheckpointStatus.COMPLETED,
            )
            .order_by(CheckpointRow.number.desc())
            .limit(1)
            .scalar_subquery()
        )
        of_job = and_(AttemptRow.job_id == JobRow.id, AttemptRow.number == JobRow.attempt)
        of_attempt = and_(RunnerRow.job_id == JobRow.id, RunnerRow.attempt == JobRow.attempt)
        query = (
            select(JobRow, AttemptRow, RunnerRow.heartbeat_at, checkpointed_at)
            .join(AttemptRow, of_job)
            .outerjoin(RunnerRow, of_attempt)
            .where(JobRow.status == JobStatus.RUNNING)
        )
        rows = await self._session.execute(query.where(JobRow.id == only) if only else query)
        return [
            RunningJob(
                mapping.stored_job(job), mapping.stored_attempt(attempt), heard, checkpointed
            )
            for job, attempt, heard, checkpointed in rows
        ]

    async def pinned(self, job_id: JobId) -> frozenset[CheckpointNumber]:
        """Return checkpoints of this job that another job started from and still needs."""
        found = await self._session.scalar(text(_PINNED_OF), {"id": job_id})
        return frozenset(CheckpointNumber(number) for number in found or ())

    async def started_from_checkpoint(
        self, job_id: JobId, checkpoint: CheckpointNumber
    ) -> Sequence[JobId]:
        told = {"job": job_id.hex, "checkpoint": checkpoint}
        found = await self._session.scalars(text(_STARTED_FROM_CHECKPOINT), told)
        return [JobId(one) for one in found]

    async def started_from(self, directory: str) -> Sequence[JobId]:
        """Return the live jobs that started from the savepoint in `directory` and still need it."""
        found = await self._session.scalars(text(_STARTED_FROM), {"root": directory})
        return [JobId(one) for one in found]


class PostgresAttempts:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def add(self, job_id: JobId, attempt: Attempt) -> None:
        key = {"job_id": job_id, "number": attempt.number}
        await self._session.execute(_ADD_ATTEMPT, {**key, **mapping.attempt_values(attempt)})

    async def get(self, job_id: JobId, number: AttemptNumber) -> StoredAttempt:
        asked = {"job_id": job_id, "number": number}
        row = (await self._session.execute(_ATTEMPT, asked)).first()
        if row is None:
            raise JobNotFound(f"job {job_id.hex} has no attempt {number}")
        return mapping.stored_attempt(row)

    async def save(self, job_id: JobId, attempt: Attempt) -> None:
        await self._update(job_id, attempt.number, **mapping.attempt_values(attempt))

    async def of_job(self, job_id: JobId) -> Sequence[StoredAttempt]:
        rows = await self._session.execute(_ATTEMPTS, {"job_id": job_id})
        return [mapping.stored_attempt(row) for row in rows]

    async def newest_of(self, jobs: Sequence[JobId]) -> Sequence[StoredAttempt]:
        given = func.any(cast(list(jobs), ARRAY(Uuid)))
        rows = await self._session.scalars(
            select(AttemptRow)
            .join(JobRow, (JobRow.id == AttemptRow.job_id) & (JobRow.attempt == AttemptRow.number))
            .where(AttemptRow.job_id == given, JobRow.id == given)
        )
        return [mapping.stored_attempt(row) for row in rows]

    async def grace_ended(self, now: datetime) -> Sequence[tuple[JobId, AttemptNumber]]:
        rows = await self._session.execute(
            select(AttemptRow.job_id, AttemptRow.number).where(AttemptRow.kill_at <= now)
        )
        return [(JobId(job_id), AttemptNumber(number)) for job_id, number in rows]

    async def note_restored(
        self, job_id: JobId, number: AttemptNumber, restored: Sequence[RestoredRegion]
    ) -> None:
        await self._update(job_id, number, restored=restored_to_json(restored))

    async def note_progress(
        self,
        job_id: JobId,
        number: AttemptNumber,
        progress: Sequence[RegionProgress],
        at: datetime,
    ) -> None:
        await self._update(job_id, number, progress=progress_to_json(progress), progress_at=at)

    async def note_progress_of(self, progress: Sequence[NotedProgress], at: datetime) -> None:
        if not progress:
            return
        rows = [
            {
                "job_id": str(one.job_id),
                "number": one.attempt,
                "progress": progress_to_json(one.regions),
            }
            for one in progress
        ]
        await self._session.execute(text(_NOTE_PROGRESS), {"rows": json.dumps(rows), "at": at})

    async def token_hashes(
        self, attempts: Sequence[tuple[JobId, AttemptNumber]]
    ) -> Mapping[tuple[JobId, AttemptNumber], str]:
        if not attempts:
            return {}
        rows = await self._session.execute(
            select(AttemptRow.job_id, AttemptRow.number, AttemptRow.token_hash).where(
                tuple_(AttemptRow.job_id, AttemptRow.number).in_(attempts),
                AttemptRow.token_hash.is_not(None),
            )
        )
        return {(JobId(job), AttemptNumber(number)): str(token) for job, number, token in rows}

    async def note_tokens(self, hashes: Mapping[tuple[JobId, AttemptNumber], str]) -> None:
        rows = [
            {"job_id": str(job_id), "number": number, "hash": token}
            for (job_id, number), token in hashes.items()
        ]
        await self._session.execute(text(_NOTE_TOKENS), {"rows": json.dumps(rows)})

    async def _update(self, job_id: JobId, number: AttemptNumber, **values: Any) -> None:
        key = {"job_id": job_id, "number": number}
        await update_row(self._session, AttemptRow, key, values)


class PostgresRunners:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def add(self, runner: Runner) -> None:
        await self._session.execute(_ADD_RUNNER, mapping.runner_values(runner))

    async def get(self, runner_id: RunnerId) -> Runner:
        return await self._get(runner_id, select(RunnerRow))

    async def get_for_update(self, runner_id: RunnerId) -> Runner:
        return await self._get(runner_id, select(RunnerRow).with_for_update(key_share=True))

    async def _get(self, runner_id: RunnerId, query: Select[RunnerRow]) -> Runner:
        row = await self._session.scalar(
            query.where(RunnerRow.id == runner_id).execution_options(populate_existing=True)
        )
        if row is None:
            raise RunnerNotFound(f"runner {runner_id} not found")
        return mapping.runner_of(row)

    async def save(self, runner: Runner) -> None:
        await update_row(self._session, RunnerRow, {"id": runner.id}, mapping.runner_values(runner))

    async def note_process(self, runner_id: RunnerId, process: Launched) -> None:
        born = process.process_started_at
        await self._update(
            runner_id, pid=process.pid, process_started_at=born, process=process.process
        )

    async def note_end(self, runner_id: RunnerId, attempt: AttemptNumber, at: datetime) -> None:
        await self._session.execute(
            update(RunnerRow)
            .where(RunnerRow.id == runner_id, RunnerRow.attempt == attempt)
            .values(ended_at=at)
            .execution_options(synchronize_session=False)
        )

    async def note_heartbeats(
        self, heard: Mapping[RunnerId, Mapping[str, Any] | None], at: datetime
    ) -> None:
        rows = [{"id": str(one), "memory": memory} for one, memory in heard.items()]
        await self._session.execute(text(_NOTE_HEARTBEATS), {"rows": json.dumps(rows), "at": at})

    async def at_work(
        self, only: Sequence[RunnerId] | None = None
    ) -> Mapping[RunnerId, RunnerAtWork]:
        which = RunnerRow.exited_at.is_(None) if only is None else RunnerRow.id.in_(only)
        of_runner = and_(
            AttemptRow.job_id == RunnerRow.job_id, AttemptRow.number == RunnerRow.attempt
        )
        # without the progress, which is long and not needed here
        attempt = defer(AttemptRow.progress), defer(AttemptRow.restored)
        rows = await self._session.execute(
            select(RunnerRow, AttemptRow)
            .join(AttemptRow, of_runner)
            .where(which)
            .options(*attempt)
            .execution_options(populate_existing=True)
        )
        return {
            RunnerId(runner.id): RunnerAtWork(
                mapping.runner_of(runner), mapping.attempt_of(found), found.token_hash
            )
            for runner, found in rows
        }

    async def _update(self, runner_id: RunnerId, **values: Any) -> None:
        """Update only these columns: other transactions may write the others at the same time."""
        await update_row(self._session, RunnerRow, {"id": runner_id}, values)

    async def before(self, job_id: JobId, attempt: AttemptNumber) -> Sequence[Runner]:
        rows = await self._session.scalars(
            select(RunnerRow)
            .where(
                RunnerRow.job_id == job_id,
                RunnerRow.attempt < attempt,
                RunnerRow.exited_at.is_(None),
            )
            .execution_options(populate_existing=True)
        )
        return [mapping.runner_of(row) for row in rows]

    async def of_attempt(self, job_id: JobId, attempt: AttemptNumber) -> Runner | None:
        row = await self._session.scalar(
            select(RunnerRow)
            .where(RunnerRow.job_id == job_id, RunnerRow.attempt == attempt)
            .execution_options(populate_existing=True)
        )
        return mapping.runner_of(row) if row else None

    async def alive(self) -> Sequence[Runner]:
        rows = await self._session.execute(_ALIVE)
        return [mapping.runner_of(row) for row in rows]

    async def all(self, limit: int) -> Sequence[Runner]:
        rows = await self._session.scalars(
            select(RunnerRow).order_by(RunnerRow.launched_at.desc()).limit(limit)
        )
        return [mapping.runner_of(row) for row in rows]


@lru_cache
def _listed(ended: int) -> Select[JobRow]:
    """To make the statement takes longer than to send it, so it is made once."""
    live = select(JobRow.id).where(IS_LIVE)
    newest = (
        select(JobRow.id)
        .where(JobRow.ended_at.is_not(None))
        .order_by(JobRow.ended_at.desc())
        .limit(ended)
    )
    # Postgres finds the ids first, and looks each of them up in the index.
    ids = func.array(union_all(live, newest.subquery().select()).scalar_subquery())
    return select(JobRow).where(JobRow.id == func.any(ids)).order_by(JobRow.submitted_at, JobRow.id)
