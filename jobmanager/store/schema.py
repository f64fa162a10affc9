"""Migrates a database to the newest schema, under a lock: several servers may start at once.

A server may start on a database that the next version has migrated, if that schema still works for
it (ADR 19). The table `schema_compatibility` says so: its row is the oldest `SCHEMA_VERSION` that
works on the schema. A migration that only adds leaves the row alone; a migration that takes away
what version n still uses sets it to n + 1.
"""

from pathlib import Path

import structlog
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text
from sqlalchemy.ext.asyncio import AsyncEngine

_log = structlog.get_logger(__name__)
SCHEMA_VERSION = 2
"""The version of the schema that this program was made for. The next release with a migration has
the next number. Version 1 did not know the number.
"""
_MIGRATION_LOCK = 0x4845_4144_4741_5445  # "HEADGATE"


def config(connection: Connection) -> Config:
    """Return Alembic's configuration, bound to `connection`."""
    alembic = Config()
    alembic.set_main_option("script_location", str(_migrations()))
    alembic.set_main_option(
        "file_template", "%%(year)d-%%(month).2d-%%(day).2d-%%(hour).2d%%(minute).2d_%%(slug)s"
    )
    alembic.set_main_option("path_separator", "os")
    alembic.attributes["connection"] = connection
    return alembic


async def upgrade(engine: AsyncEngine) -> None:
    async with engine.connect() as connection:
        await connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": _MIGRATION_LOCK})
        await connection.execute(text("SET idle_in_transaction_session_timeout = 0"))
        await connection.commit()
        try:
            await connection.run_sync(_upgrade)
            await connection.commit()
        finally:
            await connection.execute(
                text("SELECT pg_advisory_unlock(:key)"), {"key": _MIGRATION_LOCK}
            )
            await connection.execute(text("RESET idle_in_transaction_session_timeout"))
            await connection.commit()


class SchemaTooNew(Exception):
    """The database has the schema of a newer Headgate, on which this program cannot work."""


def _upgrade(connection: Connection) -> None:
    """Migrate, unless a newer program already has. Raises `SchemaTooNew`."""
    newer = _unknown_revisions(connection)
    if not newer:
        command.upgrade(config(connection), "head")
        return
    oldest = _oldest_version(connection)
    if oldest is None or oldest > SCHEMA_VERSION:
        raise SchemaTooNew(
            f"it has the schema of a newer Headgate (revision {', '.join(newer)}), which works "
            f"with schema version {oldest} and newer, and this Headgate has schema version "
            f"{SCHEMA_VERSION}: start the version of Headgate that migrated the database, or the "
            "version before"
        )
    _log.info("database is of a newer Headgate", revisions=newer, works_since=oldest)


def _unknown_revisions(connection: Connection) -> list[str]:
    """Return the database's revisions that this program has no migration for."""
    scripts = ScriptDirectory.from_config(config(connection))
    known = {one.revision for one in scripts.walk_revisions()}
    heads = MigrationContext.configure(connection).get_current_heads()
    return sorted(set(heads) - known)


def _oldest_version(connection: Connection) -> int | None:
    if not inspect(connection).has_table("schema_compatibility"):
        return None
    found = connection.scalar(text("SELECT oldest_version FROM schema_compatibility"))
    return None if found is None else int(found)


def _migrations() -> Path:
    """Return the directory of migrations, in an installed package or in a checkout."""
    package = Path(__file__).resolve().parent.parent
    packaged = package / "migrations"
    return packaged if packaged.is_dir() else package.parent / "migrations"
