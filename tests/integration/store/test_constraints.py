"""Postgres itself refuses what must never be, whatever the code believes."""

from uuid import uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from jobmanager.core.ids import JobId
from jobmanager.services import jobs
from jobmanager.store.database import Database
from tests.support.builders import NOW, a_document

pytestmark = pytest.mark.anyio


async def a_stored_job(database: Database) -> JobId:
    job_id = JobId(uuid4())
    return await jobs.submit(database.unit_of_work(), job_id, a_document(), None, None, NOW)


async def execute(database: Database, statement: str, **values: object) -> None:
    async with database.engine.begin() as connection:
        await connection.execute(text(statement), values)


async def test_a_job_has_one_live_attempt(database: Database) -> None:
    job_id = await a_stored_job(database)

    second = """INSERT INTO attempts (job_id, number, status, launched_at)
                VALUES (:id, 2, 'launching', now())"""
    with pytest.raises(IntegrityError, match="attempts_one_live_key"):
        await execute(database, second, id=job_id)


@pytest.mark.parametrize(
    ("change", "constraint"),
    [
        ("status = 'sleeping'", "jobs_status_known"),
        ("status = 'failed'", "jobs_ended_when_terminal"),
        ("restart_at = now()", "jobs_restart_when_restarting"),
        ("parallelism = 7", "jobs_parallelism_divides"),
    ],
)
async def test_a_job_cannot_contradict_itself(
    database: Database, change: str, constraint: str
) -> None:
    job_id = await a_stored_job(database)

    with pytest.raises(IntegrityError, match=constraint):
        await execute(database, f"UPDATE jobs SET {change} WHERE id = :id", id=job_id)


@pytest.mark.parametrize(
    ("columns", "constraint"),
    [
        ("status = 'completed', ended_at = now()", "checkpoints_completed_has_manifest"),
        ("status = 'aborted', ended_at = now()", "checkpoints_aborted_says_why"),
        ("ended_at = now()", "checkpoints_ended_when_terminal"),
    ],
)
async def test_a_checkpoint_cannot_contradict_itself(
    database: Database, columns: str, constraint: str
) -> None:
    job_id = await a_stored_job(database)
    await execute(
        database,
        "INSERT INTO checkpoints (job_id, number, attempt, kind, status, triggered_at, expires_at)"
        " VALUES (:id, 1, 1, 'periodic', 'in_progress', now(), now())",
        id=job_id,
    )

    with pytest.raises(IntegrityError, match=constraint):
        await execute(database, f"UPDATE checkpoints SET {columns} WHERE job_id = :id", id=job_id)


async def test_a_subtask_is_awaited_once(database: Database) -> None:
    job_id = await a_stored_job(database)
    await execute(
        database,
        "INSERT INTO checkpoints (job_id, number, attempt, kind, status, triggered_at, expires_at)"
        " VALUES (:id, 1, 1, 'periodic', 'in_progress', now(), now())",
        id=job_id,
    )
    awaited = (
        "INSERT INTO checkpoint_subtasks (job_id, checkpoint, region, vertex, subtask, kind)"
        " VALUES (:id, 1, 'out', 'bids', 0, 'offsets')"
    )
    await execute(database, awaited, id=job_id)

    with pytest.raises(IntegrityError, match="checkpoint_subtasks_pkey"):
        await execute(database, awaited, id=job_id)
