"""What is pruned, what stays, and that the statistics go on telling the truth."""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from jobmanager.core.access.roles import Role
from jobmanager.core.access.tokens import AccessToken
from jobmanager.core.ids import JobId
from jobmanager.core.life.records import HistoryEntry
from jobmanager.loops.access_pruner import AccessPruner
from jobmanager.loops.pruner import Pruner
from jobmanager.services import jobs
from jobmanager.services.ports.access import AuditEntry
from jobmanager.store.database import Database
from tests.support.builders import NOW, a_document, after
from tests.support.cluster import EVERYONE, Cluster

pytestmark = pytest.mark.anyio
MONTH = timedelta(days=30)


async def execute(database: Database, statement: str, **values: object) -> None:
    async with database.engine.begin() as connection:
        await connection.execute(text(statement), values)


async def a_stored_job(database: Database) -> JobId:
    return await jobs.submit(database.unit_of_work(), JobId(uuid4()), a_document(), None, None, NOW)


async def write_checkpoints(database: Database, job_id: JobId, count: int) -> None:
    """Completed ones, all discarded but the last three; every fourth was aborted instead."""
    await execute(
        database,
        """INSERT INTO checkpoints (job_id, number, attempt, kind, status, triggered_at, expires_at,
               ended_at, aborted_because, manifest, batches, discarded_at)
           SELECT :job, n, 1, 'periodic', CASE WHEN n % 4 = 0 THEN 'aborted' ELSE 'completed' END,
               now(), now(), now(), CASE WHEN n % 4 = 0 THEN 'expired' END, 'm', '{}',
               CASE WHEN n <= :count - 3 THEN now() END
           FROM generate_series(1, :count) AS n""",
        job=job_id,
        count=count,
    )
    await execute(
        database,
        "UPDATE jobs SET next_checkpoint = :next WHERE id = :job",
        next=count + 1,
        job=job_id,
    )


async def numbers(database: Database, job_id: JobId) -> list[int]:
    async with database.unit_of_work() as uow:
        return sorted(one.checkpoint.number for one in await uow.checkpoints.of_job(job_id, 5000))


async def test_only_the_newest_rows_of_checkpoints_stay_and_the_counts_do_not_change(
    database: Database,
) -> None:
    job_id = await a_stored_job(database)
    await write_checkpoints(database, job_id, 1200)
    async with database.unit_of_work() as uow:
        before = await uow.checkpoints.counts(job_id)

    pruner = Pruner(database.unit_of_work, lambda: NOW, 100, MONTH)
    await pruner.run_once()
    await pruner.run_once()

    assert await numbers(database, job_id) == list(range(1101, 1201))
    async with database.unit_of_work() as uow:
        assert await uow.checkpoints.counts(job_id) == before == {"completed": 900, "aborted": 300}


async def test_what_can_be_restored_from_is_never_pruned(database: Database) -> None:
    job_id = await a_stored_job(database)
    await write_checkpoints(database, job_id, 10)
    await execute(
        database, "UPDATE checkpoints SET discarded_at = NULL WHERE job_id = :job", job=job_id
    )

    await Pruner(database.unit_of_work, lambda: NOW, 1, MONTH).run_once()

    assert await numbers(database, job_id) == [1, 2, 3, 5, 6, 7, 9, 10]


async def test_savepoints_and_what_is_under_way_are_never_pruned(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    await cluster.http.post(f"/v1/jobs/{job}/savepoints", json={})
    await runner.ack(1, *EVERYONE)
    await cluster.http.post(f"/v1/jobs/{job}/checkpoints")
    await execute(
        cluster.database, "UPDATE jobs SET next_checkpoint = 5000 WHERE id = :job", job=uuid_of(job)
    )

    await Pruner(cluster.database.unit_of_work, cluster.clock, 1, MONTH).run_once()

    assert await numbers(cluster.database, uuid_of(job)) == [1, 2]
    kept = (await cluster.get("/v1/savepoints"))["items"]
    assert [one["job"] for one in kept].count(job) == 1


async def test_the_history_of_a_job_goes_a_month_after_its_end(cluster: Cluster) -> None:
    ended, runner = await cluster.running(a_document())
    alive, _ = await cluster.running(a_document())
    await runner.say("finished")
    pruner = Pruner(cluster.database.unit_of_work, cluster.clock, 1000, MONTH)

    cluster.clock.now = after(MONTH.total_seconds() - 10)
    await pruner.run_once()
    before = await cluster.get(f"/v1/jobs/{ended}/history")
    cluster.clock.now = after(MONTH.total_seconds() + 10)
    await pruner.run_once()

    assert len(before["items"]) == 8
    assert (await cluster.get(f"/v1/jobs/{ended}/history"))["items"] == []
    assert len((await cluster.get(f"/v1/jobs/{alive}/history"))["items"]) == 6
    assert await cluster.state(ended) == "FINISHED"


async def test_history_is_pruned_in_batches(database: Database) -> None:
    job_id = await a_stored_job(database)
    async with database.unit_of_work() as uow:
        await uow.history.add(job_id, *[HistoryEntry(NOW, "x", str(n)) for n in range(1100)])
        await uow.commit()
    await execute(
        database,
        "UPDATE jobs SET status = 'finished', ended_at = :at WHERE id = :job",
        at=NOW,
        job=job_id,
    )
    later = after(MONTH.total_seconds() + 10)

    await Pruner(database.unit_of_work, lambda: later, 1000, MONTH).run_once()

    async with database.unit_of_work() as uow:
        assert await uow.history.after(0, 10, job_id) == []


def uuid_of(job: str) -> JobId:

    return JobId(UUID(hex=job))


async def test_the_audit_and_tokens_that_ended_are_forgotten_after_their_time(
    database: Database,
) -> None:
    entry = AuditEntry(NOW, "ci", Role.OPERATOR, None, "POST", "/jobs", None, 202)
    old = [await database.audit.begin(entry) for _ in range(3)]
    new = await database.audit.begin(replace(entry, at=after(3600)))
    lasting = AccessToken(uuid4(), "lasting", Role.ADMIN, NOW)
    expired = AccessToken(uuid4(), "expired", Role.ADMIN, NOW, expires_at=NOW)
    for token in (lasting, expired):
        await database.tokens.add(token, uuid4().hex * 2)
    later = after(1800) + MONTH

    await AccessPruner(database.audit, database.tokens, lambda: later, MONTH).run_once()

    left = {one.id for one in await database.audit.before(None, 100)}
    assert new in left
    assert not left & set(old)
    assert [one.name for one in await database.tokens.all()] == ["lasting"]
