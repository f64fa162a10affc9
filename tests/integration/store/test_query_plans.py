"""What is asked all the time reads what is live, not everything there ever was.

The database has 10,000 ended jobs, each with an attempt, a runner and checkpoints, and a month of
history; a few jobs live. Every statement that a loop or a page of the dashboard sends is sent again
with EXPLAIN: none may read more than a small part of these tables.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Connection, event, text

from jobmanager.core.ids import JobId, RunnerId
from jobmanager.core.life.lanes import OutboxLane
from jobmanager.loops.sampler import Sampler
from jobmanager.services import jobs
from jobmanager.services.ports.figures import SummaryFilter
from jobmanager.services.ports.history import HistoryFilter
from jobmanager.store.database import Database, open_database
from tests.support.builders import NOW, a_document
from tests.support.databases import PATIENT

pytestmark = pytest.mark.anyio
ENDED = 10_000
MOST = 2_000
"""Rows that may be read of a table."""
LARGE = {"jobs", "attempts", "runners", "checkpoints", "checkpoint_subtasks", "history", "samples"}
_FILL = """
CREATE TEMPORARY TABLE made AS
    SELECT n, gen_random_uuid() AS id, now() - n * interval '260 seconds' AS at
    FROM generate_series(1, :ended) AS n;
CREATE TEMPORARY TABLE pattern AS SELECT * FROM jobs LIMIT 1;
ALTER TABLE pattern DROP COLUMN failures;
UPDATE pattern SET idempotency_key = NULL, status = 'finished', next_checkpoint_at = NULL,
    health = 'healthy', failed_at = '["2026-11-01T00:00:00+00:00"]';
INSERT INTO jobs (:columns)
    SELECT :values FROM made CROSS JOIN pattern p;
INSERT INTO attempts (job_id, number, status, launched_at, ended_at, progress, progress_at, detail)
    SELECT id, 1, 'finished', at, at, '[]', at, repeat('x', 1000) FROM made;
INSERT INTO runners (id, job_id, attempt, token_hash, host, log_path, launched_at, exited_at)
    SELECT gen_random_uuid(), id, 1, '', 'node', '', at, at FROM made;
INSERT INTO checkpoints (job_id, number, attempt, kind, status, triggered_at, expires_at, ended_at,
        manifest, batches, discarded_at)
    SELECT id, k, 1, 'periodic', 'completed', at, at, at, 'm', '{}', at
    FROM made, generate_series(1, 5) AS k;
INSERT INTO checkpoint_subtasks (job_id, checkpoint, region, vertex, subtask, kind, acked_at)
    SELECT id, k, 'out', 'bids', 0, 'offsets', at FROM made, generate_series(1, 5) AS k;
INSERT INTO history (job_id, at, kind, cause, detail)
    SELECT id, at, 'x', 'y', '{}' FROM made, generate_series(1, 10);
INSERT INTO samples (job_id, region, resolution_s, at, span_ms, input_rows, output_rows, batches,
        busy_ms, latest_offset_ms, get_batch_ms, planning_ms, wal_commit_ms, add_batch_ms,
        commit_offsets_ms, state_rows, state_bytes)
    SELECT id, 'out', 600, at, 600000, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 FROM made;
"""


@pytest.fixture(scope="module")
def full(database_url: str) -> str:
    asyncio.run(_fill(database_url))
    return database_url


@pytest.fixture
async def database(full: str) -> AsyncIterator[Database]:
    opened = open_database(full, PATIENT)
    yield opened
    await opened.close()


async def _fill(url: str) -> None:
    database = open_database(url, PATIENT)
    for _ in range(5):
        job_id = JobId(uuid4())
        await jobs.submit(database.unit_of_work(), job_id, a_document(), None, None, NOW)
    async with database.engine.begin() as connection:
        await connection.execute(text("DELETE FROM outbox"))
        found = await connection.execute(
            text(
                """SELECT column_name FROM information_schema.columns
                   WHERE table_name = 'jobs' AND is_generated = 'NEVER'"""
            )
        )
        columns = list(found.scalars())
        own = {"id": "made.id", "submitted_at": "made.at", "ended_at": "made.at"}
        values = ", ".join(own.get(name, f"p.{name}") for name in columns)
        filled = _FILL.replace(":columns", ", ".join(columns)).replace(":values", values)
        for statement in filled.replace(":ended", str(ENDED)).split(";"):
            if statement.strip():
                await connection.exec_driver_sql(statement)
    async with database.engine.connect() as connection:
        plain = await connection.execution_options(isolation_level="AUTOCOMMIT")
        await plain.execute(text("VACUUM ANALYZE"))
    await database.close()


@contextmanager
def sent(database: Database) -> Iterator[list[tuple[str, Any]]]:
    """The statements that are sent meanwhile, with their parameters."""
    found: list[tuple[str, Any]] = []

    def note(
        connection: Connection, cursor: Any, statement: str, parameters: Any, *others: Any
    ) -> None:
        found.append((statement, parameters))

    engine = database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(engine, "before_cursor_execute", note)


async def scanned(database: Database, statements: list[tuple[str, Any]]) -> dict[str, str]:
    """The large tables of which too much is read, and by which statement."""
    found: dict[str, str] = {}
    async with database.engine.connect() as connection:
        for statement, parameters in statements:
            if not statement.lstrip().upper().startswith(("SELECT", "WITH", "DELETE")):
                continue
            explain = f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {statement}"
            plan = await connection.exec_driver_sql(explain, parameters)
            found |= dict.fromkeys(_read_too_much(plan.scalar_one()[0]["Plan"]), statement)
        await connection.rollback()
    return found


def _read_too_much(plan: dict[str, Any]) -> Iterator[str]:
    """An index alone may be read as a whole: it has a few bytes for each job."""
    if plan.get("Relation Name") in LARGE and plan["Node Type"] != "Index Only Scan":
        rows = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
        if plan["Node Type"] == "Seq Scan" or rows * plan["Actual Loops"] > MOST:
            yield plan["Relation Name"]
    for inner in plan.get("Plans", ()):
        yield from _read_too_much(inner)


async def test_the_test_sees_a_scan(database: Database) -> None:
    with sent(database) as statements:
        async with database.unit_of_work() as uow:
            await uow.jobs.all()

    assert set(await scanned(database, statements)) == {"jobs"}


async def test_loops_read_only_what_is_live(database: Database) -> None:
    with sent(database) as statements:
        async with database.unit_of_work() as uow:
            await uow.attempts.grace_ended(NOW)
            await uow.checkpoints.expired(NOW)
            await uow.jobs.restart_due(NOW)
            await uow.runners.at_work()
            await uow.operations.changes_under_way()
            await uow.jobs.running()
            await uow.jobs.live()
            await uow.runners.alive()
            for lane in OutboxLane:
                await uow.outbox.due(lane, NOW, frozenset(), 100)
            await uow.lives.load_due(NOW, 100)
            await uow.history.progress()
            await uow.history.newest()
            await uow.history.after(100, 100)
            await uow.webhooks.all()
            await uow.deliveries.ready(frozenset(), NOW, 10)
            lately = datetime.now(UTC) - timedelta(minutes=10)
            await uow.signal_cursors.ended_after(lately, frozenset(), 200)
        await Sampler(database.unit_of_work, lambda: NOW).run_once()

    assert await scanned(database, statements) == {}


async def test_pages_and_figures_read_only_what_they_show(database: Database) -> None:
    with sent(database) as statements:
        async with database.unit_of_work() as uow:
            await uow.statistics.read()  # /metrics
            await uow.jobs.counts()  # /overview
            await uow.summaries.counts()
            await uow.summaries.page(SummaryFilter(limit=100))
            await uow.summaries.page(SummaryFilter(limit=100, states=["running", "stalled"]))
            listed = await uow.jobs.listed(100)
            await uow.attempts.newest_of([one.id for one in listed])
            await uow.job_reads.lines(100)
            await uow.job_reads.states(100)
            await uow.job_reads.running()
            await uow.job_reads.now(listed[0].id)
            await uow.job_reads.with_attempt(listed[0].id)
            await uow.job_reads.checkpoints(listed[0].id, 100)
            await uow.runners.all(100)
            await uow.history.of_job(listed[0].id, HistoryFilter(100, newest_first=True))
            await uow.checkpoints.of_job(listed[0].id, 100)
            await uow.samples.input_rates([listed[0].id], NOW, timedelta(seconds=10))

    assert len(listed) == 105
    assert await scanned(database, statements) == {}


async def test_pruning_reads_what_it_deletes(database: Database) -> None:
    before = NOW - timedelta(days=40)
    with sent(database) as statements:
        async with database.unit_of_work() as uow:
            await uow.pruning.history_of_live_jobs(before, 100, 500)
            await uow.pruning.ended_jobs(before, ENDED, None, None, 20)
            await uow.pruning.forgotten_runners([str(RunnerId(uuid4()))], before)

    assert await scanned(database, statements) == {}
