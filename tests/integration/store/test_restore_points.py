"""A job is accepted only with a restore point that is there, and that stays from then on.

The simulation found that a checkpoint could go between the look at it and the commit of the job
that starts from it.
"""

import asyncio
from contextlib import suppress
from uuid import uuid4

import pytest

from jobmanager.core.errors import UnusableRestorePoint
from jobmanager.core.ids import FIRST_ATTEMPT, CheckpointNumber, JobId
from jobmanager.core.life.attempt import QueriesStarted, RunnerRegistered
from jobmanager.core.life.checkpoint import (
    BarrierAcked,
    CheckpointKind,
    Snapshot,
    Stored,
)
from jobmanager.core.life.events import AttemptNews, CheckpointNews, CheckpointRequested
from jobmanager.core.life.records import RestorePoint
from jobmanager.services import jobs, lives
from jobmanager.store.database import Database
from tests.support.builders import NOW, a_document

pytestmark = pytest.mark.anyio


async def a_running_job(database: Database) -> JobId:
    """Which keeps one checkpoint."""
    job_id, document = JobId(uuid4()), a_document(checkpointing={"interval": "10s", "retained": 1})
    await jobs.submit(database.unit_of_work(), job_id, document, None, None, NOW)
    for event in (RunnerRegistered(NOW), QueriesStarted(NOW)):
        news = AttemptNews(FIRST_ATTEMPT, event)
        await lives.happen(database.unit_of_work(), job_id, news)
    return job_id


async def take_checkpoint(database: Database, job_id: JobId) -> CheckpointNumber:
    happened = await lives.happen(database.unit_of_work(), job_id, CheckpointRequested(NOW))
    checkpoint = happened.life.checkpoints_under_way[0]
    assert checkpoint.kind is CheckpointKind.REQUESTED
    ack = BarrierAcked(
        NOW,
        checkpoint.attempt,
        {ref: Snapshot(kind) for ref, kind in checkpoint.awaiting.items()},
        Stored(f"checkpoints/{checkpoint.number}/manifest.json", {}, 1, 1),
    )
    news = CheckpointNews(checkpoint.number, ack)
    await lives.happen(database.unit_of_work(), job_id, news)
    return checkpoint.number


def a_point(job_id: JobId, number: CheckpointNumber) -> RestorePoint:
    name = f"checkpoint {number} of job {job_id.hex}"
    return RestorePoint("file:///jobs", "manifest.json", name, job_id.hex, checkpoint=number)


async def test_a_checkpoint_that_went_meanwhile_is_refused(database: Database) -> None:
    parent = await a_running_job(database)
    point = a_point(parent, await take_checkpoint(database, parent))
    await take_checkpoint(database, parent)  # and the first one goes

    with pytest.raises(UnusableRestorePoint, match="was discarded while the job was"):
        await jobs.submit(
            database.unit_of_work(), JobId(uuid4()), a_document(), None, None, NOW, point
        )


async def test_a_checkpoint_that_a_job_was_accepted_with_stays(database: Database) -> None:
    parent = await a_running_job(database)
    for _ in range(5):
        number, child = await take_checkpoint(database, parent), JobId(uuid4())
        submitted = jobs.submit(
            database.unit_of_work(), child, a_document(), None, None, NOW, a_point(parent, number)
        )
        with suppress(UnusableRestorePoint):  # where the next checkpoint was quicker
            await asyncio.gather(submitted, take_checkpoint(database, parent))
        async with database.unit_of_work() as uow:
            is_accepted = child in await uow.jobs.live()
            kept = (await uow.checkpoints.get(parent, number)).discarded_at is None
        assert kept or not is_accepted
