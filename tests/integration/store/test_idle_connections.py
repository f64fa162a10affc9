"""A connection that Postgres closed while nobody used it costs nobody a request."""

import asyncio

import pytest
from sqlalchemy import text

from jobmanager.store import idle_connections
from jobmanager.store.database import Database

pytestmark = pytest.mark.anyio
_END_OTHERS = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


async def end_all_connections(database: Database) -> int:
    """Of everybody else on this database: those of the pool."""
    async with database._for_lease.connect() as connection:
        found = await connection.execute(text(_END_OTHERS))
        return int(found.scalar_one())


async def test_an_idle_connection_that_is_gone_is_replaced(database: Database) -> None:
    async with database.unit_of_work() as uow:
        before = await uow.jobs.counts()
    assert await end_all_connections(database) >= 1

    await asyncio.sleep(idle_connections._ASKED_AFTER + 0.1)

    for only_reads in (True, False):
        async with database.unit_of_work(only_reads=only_reads) as uow:
            assert await uow.jobs.counts() == before


async def test_a_unit_of_work_that_only_reads_cannot_be_committed(database: Database) -> None:
    async with database.unit_of_work(only_reads=True) as uow:
        await uow.jobs.counts()
        with pytest.raises(RuntimeError, match="only reads"):
            await uow.commit()


async def test_a_read_leaves_no_transaction_behind(database: Database) -> None:
    async with database.unit_of_work(only_reads=True) as uow:
        await uow.jobs.counts()
        async with database._for_lease.connect() as other:
            states = await other.execute(
                text(
                    "SELECT count(*) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND state = 'idle in transaction'"
                )
            )
            assert states.scalar_one() == 0
