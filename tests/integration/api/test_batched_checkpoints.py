"""Checkpoints of many jobs in one transaction come to the same as one by one."""

import asyncio
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from jobmanager.core.ids import CheckpointNumber, JobId
from jobmanager.core.life.events import CheckpointDue
from jobmanager.services import batched_checkpoints, lives
from jobmanager.services.batched_checkpoints import Ack, Acks
from jobmanager.services.checkpoints import Acknowledged
from tests.support.builders import a_document
from tests.support.cluster import EVERYONE, Cluster, PlayedRunner

pytestmark = pytest.mark.anyio
PACED = {"interval": "10s", "min_pause": "7s", "retained": 2}
_ROWS = (
    "SELECT next_checkpoint, next_checkpoint_at, failed_checkpoints FROM jobs WHERE id = :id",
    """SELECT number, attempt, kind, status, triggered_at, expires_at, ended_at, manifest, batches,
              bytes, new_bytes, discarded_at FROM checkpoints WHERE job_id = :id ORDER BY number""",
    """SELECT checkpoint, region, vertex, subtask, kind, acked_at, pointer, version, bytes,
              key_groups, offsets, watermark FROM checkpoint_subtasks
       WHERE job_id = :id ORDER BY 1, 2, 3, 4""",
    "SELECT attempt, target, kind, payload, due_at FROM outbox WHERE job_id = :id ORDER BY id",
)


class OneByOne(Acks):
    """Takes every ack by itself."""

    async def note(self, ack: Ack) -> Acknowledged | None:
        return None


async def written(cluster: Cluster, job: str) -> list[list[Any]]:
    async with cluster.database.engine.connect() as connection:
        return [
            [tuple(row) for row in await connection.execute(text(query), {"id": UUID(job)})]
            for query in _ROWS
        ]


def one_by_one(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    async def trigger_each(uow: Any, now: datetime) -> None:
        async with cluster.database.unit_of_work() as found:
            live = list(await found.jobs.live())
        for job_id in live:
            await lives.happen(cluster.database.unit_of_work(), job_id, CheckpointDue(now))

    monkeypatch.setattr(batched_checkpoints, "trigger_due", trigger_each)
    monkeypatch.setattr(Acks, "note", OneByOne.note)


async def live(cluster: Cluster, job: str, runner: PlayedRunner) -> PlayedRunner:
    """Some checkpoints, a restart, and one more."""
    cluster.clock.pass_time(10)
    for number in (1, 2, 3, 4):
        await cluster.timer.run_once()
        cluster.clock.pass_time(5)
        assert await runner.ack(number, *EVERYONE) == "completed"
        cluster.clock.pass_time(10)
    await runner.fail()
    cluster.clock.pass_time(60)
    await cluster.reaper.run_once()
    second = await cluster.runner(job, attempt=2)
    await second.run()
    cluster.clock.pass_time(10)
    await cluster.timer.run_once()
    assert await second.ack(5, *EVERYONE) == "completed"
    return second


async def test_together_or_one_by_one_the_same_is_written(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = a_document(checkpointing=PACED)
    began = cluster.clock.now
    together, runner = await cluster.running(document)
    await live(cluster, together, runner)
    found = await written(cluster, together)
    with monkeypatch.context() as patched:
        one_by_one(cluster, patched)
        cluster.clock.now = began
        alone, runner = await cluster.running(document)
        await live(cluster, alone, runner)

    assert all(found)
    assert found == await written(cluster, alone)


async def test_all_that_are_due_are_triggered_and_completed_together(cluster: Cluster) -> None:
    running = [await cluster.running(a_document(name=f"job {n}")) for n in range(6)]
    cluster.clock.pass_time(30)
    await cluster.timer.run_once()

    outcomes = await asyncio.gather(*(runner.ack(1, *EVERYONE) for _, runner in running))

    assert outcomes == ["completed"] * 6
    for job, _ in running:
        found = await cluster.get(f"/v1/jobs/{job}/checkpoints/1")
        assert (found["status"], len(found["acks"]), found["awaited"]) == ("completed", 4, [])


async def test_a_job_that_is_locked_is_skipped_and_the_others_are_not(cluster: Cluster) -> None:
    (locked, _), (free, _) = [await cluster.running(a_document()) for _ in range(2)]
    cluster.clock.pass_time(30)
    async with cluster.database.unit_of_work() as holder:
        await holder.jobs.get_for_update(JobId(UUID(locked)))
        await asyncio.wait_for(cluster.timer.run_once(), 10)

        assert await count(cluster, locked) == 0
        assert await count(cluster, free) == 1
    await cluster.timer.run_once()
    assert await count(cluster, locked) == 1


async def count(cluster: Cluster, job: str) -> int:
    return int((await cluster.get(f"/v1/jobs/{job}/checkpoints"))["counts"]["total"])


async def test_of_one_ack_sent_twice_at_once_one_completes(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    await cluster.http.post(f"/v1/jobs/{job}/checkpoints")

    outcomes = await asyncio.gather(*(runner.ack(1, *EVERYONE) for _ in range(3)))

    assert sorted(outcomes) == ["already_recorded", "already_recorded", "completed"]


async def test_another_runner_or_another_attempt_completes_nothing(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    _, stranger = await cluster.running(a_document())
    await cluster.http.post(f"/v1/jobs/{job}/checkpoints")

    said = runner.acks(1, *EVERYONE)
    assert (await stranger.post("acks", said)).status_code == 403
    assert (await runner.post("acks", {**said, "attempt": 2})).status_code == 403
    runner.secret = "wrong"
    assert (await runner.post("acks", said)).status_code == 401
    found = await cluster.get(f"/v1/jobs/{job}/checkpoints/1")
    assert (found["status"], found["acks"]) == ("in_progress", [])


async def test_a_checkpoint_that_another_job_starts_from_stays(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document(checkpointing=PACED))
    await cluster.http.post(f"/v1/jobs/{job}/checkpoints")
    await runner.ack(1, *EVERYONE)
    async with cluster.database.engine.begin() as connection:
        await cluster.running(a_document(name="the other"))
        pinned = text(
            """UPDATE jobs SET restore_point = jsonb_build_object(
                   'root', 'x', 'manifest', 'm', 'name', 'n', 'job', CAST(:job AS text),
                   'checkpoint', 1) WHERE name = 'the other'"""
        )
        await connection.execute(pinned, {"job": job})
    for number in (2, 3, 4):
        await cluster.http.post(f"/v1/jobs/{job}/checkpoints")
        await runner.ack(number, *EVERYONE)

    async with cluster.database.unit_of_work() as uow:
        kept = await uow.checkpoints.restorable(JobId(UUID(job)))
    assert kept == [CheckpointNumber(number) for number in (1, 3, 4)]


async def test_an_ack_of_a_checkpoint_that_is_not_there_is_refused(cluster: Cluster) -> None:
    _, runner = await cluster.running(a_document())
    assert (await runner.post("acks", runner.acks(9, *EVERYONE))).status_code == 404
