"""A job is accepted only with a restore point that is there, and that stays from then on.

The simulation found that a checkpoint could go between the look at it and the commit of the job
that starts from it.
"""

import asyncio
from contextlib import suppress
from dataclasses import replace
from uuid import UUID, uuid4

import pytest

from jobmanager.core.errors import SinkInUse, UnusableRestorePoint
from jobmanager.core.ids import FIRST_ATTEMPT, CheckpointNumber, JobId
from jobmanager.core.life.attempt import AttemptFailed, QueriesStarted, RunnerRegistered
from jobmanager.core.life.checkpoint import (
    BarrierAcked,
    CheckpointKind,
    Snapshot,
    Stored,
)
from jobmanager.core.life.effects import LetRestorePointGo
from jobmanager.core.life.events import AttemptNews, CheckpointNews, CheckpointRequested
from jobmanager.core.life.records import RestorePoint
from jobmanager.services import jobs, lives, restore_points
from jobmanager.store.database import Database
from tests.support.builders import NOW, a_document, a_document_with, a_failure

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
            database.unit_of_work(),
            child,
            a_document_with("out", path=child.hex),
            *(None, None, NOW, a_point(parent, number)),
        )
        with suppress(UnusableRestorePoint):  # where the next checkpoint was quicker
            await asyncio.gather(submitted, take_checkpoint(database, parent))
        async with database.unit_of_work() as uow:
            is_accepted = child in await uow.jobs.live()
            kept = (await uow.checkpoints.get(parent, number)).discarded_at is None
        assert kept or not is_accepted


# ── sinks ─────────────────────────────────────────────────────────────────────


async def an_ended_parent(database: Database) -> RestorePoint:
    """A checkpoint of a job that has ended, whose output others may go on with."""
    parent = await a_running_job(database)
    point = a_point(parent, await take_checkpoint(database, parent))
    failure = AttemptFailed(NOW, a_failure(restartable=False))
    await lives.happen(database.unit_of_work(), parent, AttemptNews(FIRST_ATTEMPT, failure))
    return point


async def go_on(
    database: Database, point: RestorePoint, path: str = "out", data_root: str = "/data"
) -> JobId:
    document = a_document_with("out", path=path)
    return await jobs.submit(
        database.unit_of_work(), JobId(uuid4()), document, None, None, NOW, point, data_root
    )


async def test_of_two_jobs_that_go_on_with_one_output_at_once_one_is_refused(
    database: Database,
) -> None:
    for _ in range(5):
        points, path = [await an_ended_parent(database) for _ in range(2)], uuid4().hex
        both = await asyncio.gather(
            *(go_on(database, point, path) for point in points), return_exceptions=True
        )

        refused = [one for one in both if isinstance(one, SinkInUse)]
        accepted = [one for one in both if not isinstance(one, BaseException)]
        assert (len(accepted), len(refused)) == (1, 1), both
        assert f"job {accepted[0].hex} still writes to /data/{path}" in str(refused[0])


async def test_jobs_that_write_elsewhere_do_not_mind_each_other(database: Database) -> None:
    point = await an_ended_parent(database)
    places = [uuid4().hex for _ in range(4)]
    accepted = await asyncio.gather(*(go_on(database, point, place) for place in places))
    assert len(set(accepted)) == 4


async def test_where_a_job_of_another_server_writes_is_told_by_that_servers_data_root(
    database: Database,
) -> None:
    point, path = await an_ended_parent(database), uuid4().hex
    other = await go_on(database, point, path, data_root="/of/another/server")

    with pytest.raises(SinkInUse, match=f"job {other.hex} still writes to /of/another/server"):
        await go_on(database, point, f"file:///of/another/server/{path}")
    await go_on(database, point, path, data_root="/of/this/server")


# ── what a job has claimed ────────────────────────────────────────────────────


async def test_what_was_claimed_goes_only_if_no_third_job_was_accepted_from_it(
    database: Database,
) -> None:
    """The simulation found that a third job, accepted at the same moment, lost its start."""
    kept = []
    for _ in range(6):
        point = await an_ended_parent(database)
        claimed = LetRestorePointGo(point.root, point.job, CheckpointNumber(point.checkpoint or 0))
        claimer = await go_on(database, replace(point, claim=True), uuid4().hex)
        await take_first_checkpoint(database, claimer)

        letting_go = restore_points.let_go(database.unit_of_work(), claimer, claimed, NOW)
        users, third = await asyncio.gather(
            letting_go, go_on(database, point, uuid4().hex), return_exceptions=True
        )

        writer, number = JobId(UUID(hex=point.job)), CheckpointNumber(point.checkpoint or 0)
        async with database.unit_of_work() as uow:
            is_there = (await uow.checkpoints.get(writer, number)).discarded_at is None
        if isinstance(third, UnusableRestorePoint):
            assert (users, is_there) == ((), False)
        else:
            assert (users, is_there) == ([third], True)
        kept.append(is_there)
    assert len(kept) == 6


async def take_first_checkpoint(database: Database, job_id: JobId) -> None:
    for event in (RunnerRegistered(NOW), QueriesStarted(NOW)):
        await lives.happen(database.unit_of_work(), job_id, AttemptNews(FIRST_ATTEMPT, event))
    await take_checkpoint(database, job_id)


async def test_a_claimed_checkpoint_stays_while_a_third_job_needs_it(database: Database) -> None:
    point = await an_ended_parent(database)
    claimed = LetRestorePointGo(point.root, point.job, CheckpointNumber(point.checkpoint or 0))
    claimer = await go_on(database, replace(point, claim=True), uuid4().hex)
    await take_first_checkpoint(database, claimer)
    third = await go_on(database, point, uuid4().hex)

    first = await restore_points.let_go(database.unit_of_work(), claimer, claimed, NOW)
    await take_first_checkpoint(database, third)
    then = await restore_points.let_go(database.unit_of_work(), claimer, claimed, NOW)

    assert (first, then) == ([third], ())
