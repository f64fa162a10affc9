"""Migrates a database to the newest schema, under a lock: several servers may start at once."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncEngine

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
            await connection.run_sync(lambda sync: command.upgrade(config(sync), "head"))
            await connection.commit()
        finally:
            await connection.execute(
                text("SELECT pg_advisory_unlock(:key)"), {"key": _MIGRATION_LOCK}
            )
            await connection.execute(text("RESET idle_in_transaction_session_timeout"))
            await connection.commit()


def _migrations() -> Path:
    """Return the directory of migrations, in an installed package or in a checkout."""
    package = Path(__file__).resolve().parent.parent
    packaged = package / "migrations"
    return packaged if packaged.is_dir() else package.parent / "migrations"
