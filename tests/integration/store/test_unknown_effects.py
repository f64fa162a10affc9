"""Effects that a newer JobManager has written stay in the outbox, and block no others."""

from datetime import timedelta
from uuid import UUID

import pytest
from sqlalchemy import text

from jobmanager.core.ids import AttemptNumber, CheckpointNumber, JobId
from jobmanager.core.life.effects import DiscardCheckpoint
from tests.support.builders import NOW, a_document
from tests.support.cluster import Cluster

pytestmark = pytest.mark.anyio
_WRITE = """
INSERT INTO outbox (job_id, attempt, target, kind, payload, created_at, due_at, tries)
VALUES (:job, 1, :target, :kind, CAST(:payload AS jsonb), :at, :at, 0)
"""


async def write(cluster: Cluster, job: str, target: str, kind: str, payload: str = "{}") -> None:
    """As a newer JobManager does."""
    at = NOW - timedelta(days=1)
    values = {"job": UUID(job), "target": target, "kind": kind, "payload": payload, "at": at}
    async with cluster.database.engine.begin() as connection:
        await connection.execute(text(_WRITE), values)


async def kinds(cluster: Cluster, job: str) -> list[str]:
    async with cluster.database.engine.connect() as connection:
        query = text("SELECT kind FROM outbox WHERE job_id = :job ORDER BY id")
        return list(await connection.scalars(query, {"job": UUID(job)}))


async def test_an_unknown_effect_stays_and_the_others_are_carried_out(cluster: Cluster) -> None:
    job = await cluster.submit(a_document())
    await write(cluster, job, "jobmanager", "PaintRunner", '{"colour": "red"}')
    async with cluster.database.unit_of_work() as uow:
        await uow.outbox.add(JobId(UUID(job)), [DiscardCheckpoint(CheckpointNumber(1))], NOW)
        await uow.commit()

    runner = await cluster.runner(job)  # the dispatcher has had its turn
    await runner.run()

    left = await kinds(cluster, job)
    assert "PaintRunner" in left
    assert "DiscardCheckpoint" not in left
    async with cluster.database.unit_of_work() as uow:
        assert (await uow.outbox.unknown())["PaintRunner"] == 1


async def test_an_unknown_directive_stays_and_the_runner_gets_the_others(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    await write(cluster, job, "runner", "PaintAttempt")
    await cluster.http.post(f"/v1/jobs/{job}/checkpoints")

    told = await runner.directives()
    await runner.directives(after=told[-1]["id"])

    assert [one["body"]["kind"] for one in told] == ["run", "barrier"]
    assert await kinds(cluster, job) == ["PaintAttempt"]


async def test_a_field_that_a_newer_jobmanager_added_to_an_effect_is_ignored(
    cluster: Cluster,
) -> None:
    job, runner = await cluster.running(a_document())
    payload = '{"attempt": 1, "checkpoint": 9, "reason": "r", "colour": "red"}'
    await write(cluster, job, "runner", "WithdrawBarrier", payload)

    told = await runner.directives()

    assert told[-1]["body"] == {"kind": "checkpoint_aborted", "checkpoint": 9, "reason": "r"}
    async with cluster.database.unit_of_work() as uow:
        assert await uow.runners.of_attempt(JobId(UUID(job)), AttemptNumber(1)) is not None
