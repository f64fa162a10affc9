"""Migrations go up, down and up again, and make exactly the tables the code knows."""

import asyncio
from collections.abc import Iterator

import pytest
from alembic import command
from sqlalchemy import Connection, inspect, text

from jobmanager.store import schema
from jobmanager.store.database import open_database
from tests.support.databases import fresh_database

pytestmark = pytest.mark.anyio


@pytest.fixture
def empty_url(postgres_url: str) -> Iterator[str]:
    with fresh_database(postgres_url) as url:
        yield url


async def test_up_down_up(empty_url: str) -> None:
    database = open_database(empty_url)

    def round_trip(connection: Connection) -> list[str]:
        command.upgrade(schema.config(connection), "head")
        command.downgrade(schema.config(connection), "base")
        left = inspect(connection).get_table_names()
        command.upgrade(schema.config(connection), "head")
        command.check(schema.config(connection))
        return left

    async with database.engine.connect() as connection:
        left = await connection.run_sync(round_trip)
    await database.close()

    assert left == ["alembic_version"]


async def migrated_by_a_newer_program(url: str, oldest_version: int) -> None:
    """As a release does that is not written yet."""
    database = open_database(url)
    await database.migrate()
    async with database.engine.begin() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = 'ffff00000001'"))
        await connection.execute(
            text("UPDATE schema_compatibility SET oldest_version = :it"), {"it": oldest_version}
        )
    await database.close()


async def test_a_server_starts_on_the_schema_of_the_next_version(empty_url: str) -> None:
    await migrated_by_a_newer_program(empty_url, oldest_version=schema.SCHEMA_VERSION)
    database = open_database(empty_url)

    await database.migrate()

    async with database.engine.connect() as connection:
        revision = await connection.scalar(text("SELECT version_num FROM alembic_version"))
    await database.close()
    assert revision == "ffff00000001"


async def test_a_server_does_not_start_on_a_schema_that_no_longer_works_for_it(
    empty_url: str,
) -> None:
    await migrated_by_a_newer_program(empty_url, oldest_version=schema.SCHEMA_VERSION + 1)
    database = open_database(empty_url)

    with pytest.raises(schema.SchemaTooNew, match="works with schema version 3 and newer"):
        await database.migrate()

    await database.close()


async def test_several_servers_may_migrate_at_once(empty_url: str) -> None:
    databases = [open_database(empty_url) for _ in range(4)]

    await asyncio.gather(*(one.migrate() for one in databases))

    async with databases[0].engine.connect() as connection:
        jobs = await connection.scalar(text("SELECT count(*) FROM jobs"))
    for one in databases:
        await one.close()
    assert jobs == 0
