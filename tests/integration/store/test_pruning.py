"""What is pruned, what stays, and that the statistics go on telling the truth."""

import os
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from jobmanager.core.access.roles import Role
from jobmanager.core.access.tokens import AccessToken
from jobmanager.core.ids import AttemptNumber, JobId, RunnerId
from jobmanager.core.life.records import HistoryEntry
from jobmanager.core.pruning_limits import PruningLimits
from jobmanager.files.snapshot_storage import FileSnapshotStorage
from jobmanager.launchers.local import LocalLauncher
from jobmanager.loops.access_pruner import AccessPruner
from jobmanager.loops.leftovers import Leftovers
from jobmanager.loops.pruner import Pruner
from jobmanager.services import jobs
from jobmanager.services.clock import Clock
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
    database: Database, tmp_path: Path
) -> None:
    job_id = await a_stored_job(database)
    await write_checkpoints(database, job_id, 1200)
    async with database.unit_of_work() as uow:
        before = await uow.checkpoints.counts(job_id)

    await a_pruner(database, tmp_path, checkpoint_rows=100).run_once()

    assert await numbers(database, job_id) == list(range(1101, 1201))
    async with database.unit_of_work() as uow:
        assert await uow.checkpoints.counts(job_id) == before == {"completed": 900, "aborted": 300}


async def test_what_can_be_restored_from_is_never_pruned(
    database: Database, tmp_path: Path
) -> None:
    job_id = await a_stored_job(database)
    await write_checkpoints(database, job_id, 10)
    await execute(
        database, "UPDATE checkpoints SET discarded_at = NULL WHERE job_id = :job", job=job_id
    )

    await a_pruner(database, tmp_path, checkpoint_rows=1).run_once()

    assert await numbers(database, job_id) == [1, 2, 3, 5, 6, 7, 9, 10]


async def test_savepoints_and_what_is_under_way_are_never_pruned(
    cluster: Cluster, tmp_path: Path
) -> None:
    job, runner = await cluster.running(a_document())
    await cluster.http.post(f"/v1/jobs/{job}/savepoints", json={})
    await runner.ack(1, *EVERYONE)
    await cluster.http.post(f"/v1/jobs/{job}/checkpoints")
    await execute(
        cluster.database, "UPDATE jobs SET next_checkpoint = 5000 WHERE id = :job", job=uuid_of(job)
    )

    await a_pruner(cluster.database, tmp_path, cluster.clock, checkpoint_rows=1).run_once()

    assert await numbers(cluster.database, uuid_of(job)) == [1, 2]
    kept = (await cluster.get("/v1/savepoints"))["items"]
    assert [one["job"] for one in kept].count(job) == 1


async def test_the_history_of_a_job_goes_a_month_after_its_end(
    cluster: Cluster, tmp_path: Path
) -> None:
    ended, runner = await cluster.running(a_document())
    alive, _ = await cluster.running(a_document())
    await runner.say("finished")
    pruner = a_pruner(cluster.database, tmp_path, cluster.clock)

    cluster.clock.now = after(MONTH.total_seconds() - 10)
    await pruner.run_once()
    before = await cluster.get(f"/v1/jobs/{ended}/history")
    cluster.clock.now = after(MONTH.total_seconds() + 10)
    await pruner.run_once()

    assert len(before["items"]) == 8
    assert (await cluster.get(f"/v1/jobs/{ended}/history"))["items"] == []
    assert len((await cluster.get(f"/v1/jobs/{alive}/history"))["items"]) == 6
    assert await cluster.state(ended) == "FINISHED"


async def test_the_history_of_a_live_job_keeps_its_newest_entries_and_those_of_a_month(
    database: Database, tmp_path: Path
) -> None:
    job_id = await a_stored_job(database)
    later = after(MONTH.total_seconds() + 10)
    await write_history(database, job_id, NOW, 2500)
    await write_history(database, job_id, later, 150)

    await a_pruner(database, tmp_path, lambda: later).run_once()
    assert await count(database, "history", job_id) == 150

    await a_pruner(database, tmp_path, lambda: later + 2 * MONTH).run_once()
    assert await count(database, "history", job_id) == 100


async def test_history_is_pruned_in_batches(database: Database, tmp_path: Path) -> None:
    job_id = await a_stored_job(database)
    await write_history(database, job_id, NOW, 4100)
    await end(database, job_id, NOW)
    later = after(MONTH.total_seconds() + 10)

    await a_pruner(database, tmp_path, lambda: later).run_once()

    assert await count(database, "history", job_id) == 0


async def test_old_attempts_go_with_their_runners_unless_a_checkpoint_is_theirs(
    database: Database, tmp_path: Path
) -> None:
    job_id = await a_stored_job(database)
    await write_attempts(database, job_id, 40)
    await execute(
        database,
        """INSERT INTO checkpoints (job_id, number, attempt, kind, status, triggered_at, expires_at,
               ended_at, manifest, batches)
           VALUES (:job, 1, 7, 'periodic', 'completed', now(), now(), now(), 'm', '{}')""",
        job=job_id,
    )

    await a_pruner(database, tmp_path, attempts=10).run_once()

    async with database.unit_of_work() as uow:
        left = sorted(one.attempt.number for one in await uow.attempts.of_job(job_id))
        assert left == [7, *range(31, 41)]
        assert await uow.runners.of_attempt(job_id, AttemptNumber(7)) is not None
        assert await uow.runners.of_attempt(job_id, AttemptNumber(6)) is None


async def test_an_ended_job_goes_with_its_directory_when_nothing_needs_it(
    database: Database, tmp_path: Path
) -> None:
    """Of each kind a job that is needed for one reason only."""
    names = ["unneeded", "recent", "live", "retained", "savepoint", "runner", "effect"]
    found = {name: await a_stored_job(database) for name in names}
    for name, job_id in found.items():
        write_files(directory_of(tmp_path, job_id))
        await execute(database, "DELETE FROM outbox WHERE job_id = :job", job=job_id)
        if name != "live":
            await end(database, job_id, NOW if name != "recent" else NOW + MONTH)
    await write_checkpoints(database, found["unneeded"], 20)
    await execute(
        database,
        "UPDATE checkpoints SET discarded_at = now() WHERE job_id = :job",
        job=found["unneeded"],
    )
    await write_checkpoints(database, found["retained"], 5)
    await write_savepoint(database, found["savepoint"])
    await write_attempts(database, found["runner"], 1)
    await execute(
        database, "UPDATE runners SET exited_at = NULL WHERE job_id = :job", job=found["runner"]
    )
    await execute(
        database,
        """INSERT INTO outbox (job_id, target, kind, payload, created_at, due_at, tries)
           VALUES (:job, 'jobmanager', 'discard_attempts', '{}', now(), now(), 0)""",
        job=found["effect"],
    )

    await a_pruner(database, tmp_path, lambda: NOW + MONTH * 3 + MONTH / 2).run_once()

    assert {name for name in names if await count(database, "jobs", found[name], "id")} == {
        *names
    } - {"unneeded"}
    assert {name for name in names if directory_of(tmp_path, found[name]).exists()} == {*names} - {
        "unneeded"
    }
    assert await count(database, "checkpoints", found["unneeded"]) == 0


async def test_retained_checkpoints_of_ended_jobs_go_only_if_a_setting_says_so(
    database: Database, tmp_path: Path
) -> None:
    job_id, fork = await a_stored_job(database), await a_stored_job(database)
    await execute(database, "DELETE FROM outbox")
    write_files(directory_of(tmp_path, job_id))
    await write_checkpoints(database, job_id, 5)
    await end(database, job_id, NOW)
    later = NOW + MONTH * 12
    kept = a_pruner(database, tmp_path, lambda: later, ended_checkpoints=MONTH * 6)
    # A live job was started from one of them, and has none of its own yet.
    await execute(
        database,
        """UPDATE jobs SET restore_point = jsonb_build_object('job', CAST(:hex AS text),
               'checkpoint', 5, 'root', 'file:///x') WHERE id = :fork""",
        hex=job_id.hex,
        fork=fork,
    )

    await a_pruner(database, tmp_path, lambda: later).run_once()
    await kept.run_once()
    assert await count(database, "jobs", job_id, "id") == 1

    await execute(database, "UPDATE jobs SET restore_point = NULL WHERE id = :fork", fork=fork)
    await a_pruner(database, tmp_path, lambda: later).run_once()
    assert await count(database, "jobs", job_id, "id") == 1
    await kept.run_once()
    assert await count(database, "jobs", job_id, "id") == 0
    assert not directory_of(tmp_path, job_id).exists()


async def test_of_too_many_ended_jobs_those_that_ended_first_go(
    database: Database, tmp_path: Path
) -> None:
    await execute(database, "DELETE FROM jobs")
    found = [await a_stored_job(database) for _ in range(50)]
    await execute(database, "DELETE FROM outbox")
    for place, job_id in enumerate(found):
        await end(database, job_id, NOW + timedelta(seconds=place))

    await a_pruner(database, tmp_path, lambda: NOW + MONTH, most_ended_jobs=7).run_once()

    left = [one for one in found if await count(database, "jobs", one, "id")]
    assert left == found[-7:]


async def test_rows_of_savepoints_that_are_gone_go_and_the_checkpoints_behind_them(
    database: Database, tmp_path: Path
) -> None:
    job_id = await a_stored_job(database)
    await write_savepoint(database, job_id)
    await execute(database, "UPDATE jobs SET next_checkpoint = 5000 WHERE id = :job", job=job_id)
    later = after(MONTH.total_seconds() + 10)

    await a_pruner(database, tmp_path, lambda: later).run_once()
    assert await count(database, "savepoints", job_id) == 1

    await execute(
        database,
        "UPDATE savepoints SET status = 'disposed', disposed_at = :at WHERE job_id = :job",
        at=NOW,
        job=job_id,
    )
    await a_pruner(database, tmp_path, lambda: later).run_once()
    assert await count(database, "savepoints", job_id) == 0
    assert await count(database, "checkpoints", job_id) == 0


async def test_more_jobs_than_a_batch_are_pruned_in_one_run(
    database: Database, tmp_path: Path
) -> None:
    """What 830 jobs write in ten minutes at default settings, and more."""
    job_id = await a_stored_job(database)
    await write_checkpoints(database, job_id, 60_000)

    await a_pruner(database, tmp_path, checkpoint_rows=1000).run_once()

    assert await count(database, "checkpoints", job_id) == 1000


async def test_logs_of_runners_that_the_database_has_forgotten_are_deleted(
    database: Database, tmp_path: Path
) -> None:
    job_id = await a_stored_job(database)
    await write_attempts(database, job_id, 3)
    async with database.unit_of_work() as uow:
        runners = [await uow.runners.of_attempt(job_id, AttemptNumber(n)) for n in (1, 2, 3)]
    old, recent, alive = (str(one.id) for one in runners if one)
    unknown, unknown_but_new = str(uuid4()), str(uuid4())
    launcher = LocalLauncher(tmp_path / "runners", tmp_path / "a", tmp_path / "c", "node")
    for runner in (old, recent, alive, unknown, unknown_but_new):
        write_log(Path(launcher.log_path(RunnerId(UUID(runner)))), runner != unknown_but_new)
    for runner, at in ((old, NOW), (recent, NOW + MONTH), (alive, None)):
        await execute(
            database, "UPDATE runners SET exited_at = :at WHERE id = :id", at=at, id=UUID(runner)
        )

    leftovers = Leftovers(
        database.unit_of_work, launcher, lambda: NOW + MONTH + timedelta(days=1), MONTH
    )
    await leftovers.run_once()

    left = {one.name for one in (tmp_path / "runners").iterdir()}
    assert left == {recent, alive, unknown_but_new}


def a_pruner(database: Database, root: Path, clock: Clock = lambda: NOW, **limits: Any) -> Pruner:
    kept = PruningLimits(
        **{
            "checkpoint_rows": 1000,
            "history": MONTH,
            "attempts": 100,
            "ended_jobs": 3 * MONTH,
            "most_ended_jobs": 10_000,
            **limits,
        }
    )
    sweep = FileSnapshotStorage(root / "storage").sweep
    return Pruner(database.unit_of_work, sweep, clock, kept)


def write_log(log: Path, is_old: bool) -> None:
    log.parent.mkdir(parents=True)
    log.write_text("said")
    for path in (log, log.parent) if is_old else ():
        os.utime(path, (1_000_000_000, 1_000_000_000))


def write_files(directory: Path) -> None:
    (directory / "attempts" / "1").mkdir(parents=True)
    (directory / "epoch").write_text("1")


def directory_of(root: Path, job_id: JobId) -> Path:
    return root / "storage" / "jobs" / job_id.hex


async def end(database: Database, job_id: JobId, at: datetime) -> None:
    await execute(
        database,
        "UPDATE jobs SET status = 'finished', ended_at = :at WHERE id = :job",
        at=at,
        job=job_id,
    )


async def write_history(database: Database, job_id: JobId, at: datetime, entries: int) -> None:
    async with database.unit_of_work() as uow:
        await uow.history.add(job_id, *[HistoryEntry(at, "x", str(n)) for n in range(entries)])
        await uow.commit()


async def write_attempts(database: Database, job_id: JobId, newest: int) -> None:
    """Ended ones, of which the first was there already, each with a runner that has exited."""
    await execute(
        database,
        """WITH ended AS (
               UPDATE attempts SET status = 'finished', ended_at = now() WHERE job_id = :job
               RETURNING job_id)
           UPDATE jobs SET attempt = :newest WHERE id IN (SELECT job_id FROM ended)""",
        job=job_id,
        newest=newest,
    )
    await execute(
        database,
        """INSERT INTO attempts (job_id, number, status, launched_at, ended_at)
           SELECT :job, n, 'finished', now(), now() FROM generate_series(2, :newest) AS n""",
        job=job_id,
        newest=newest,
    )
    await execute(
        database,
        """INSERT INTO runners (id, job_id, attempt, token_hash, host, log_path, launched_at,
               exited_at)
           SELECT gen_random_uuid(), :job, n, '', 'node', '', now(), now()
           FROM generate_series(1, :newest) AS n""",
        job=job_id,
        newest=newest,
    )


async def write_savepoint(database: Database, job_id: JobId) -> None:
    await execute(
        database,
        """WITH made AS (
               INSERT INTO checkpoints (job_id, number, attempt, kind, status, triggered_at,
                   expires_at, ended_at, manifest, batches)
               VALUES (:job, 100, 1, 'savepoint', 'completed', now(), now(), now(), 'm', '{}'))
           INSERT INTO savepoints (id, job_id, checkpoint, directory, status, created_at,
               completed_at, parallelism, max_parallelism, graph_revision, labels)
           VALUES (:job, :job, 100, CAST(:job AS text), 'completed', :at, :at, 1, 1, 1, '{}')""",
        job=job_id,
        at=NOW,
    )


async def count(database: Database, table: str, job_id: JobId, column: str = "job_id") -> int:
    async with database.engine.connect() as connection:
        query = text(f"SELECT count(*) FROM {table} WHERE {column} = :job")
        return int((await connection.execute(query, {"job": job_id})).scalar_one())


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
