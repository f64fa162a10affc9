"""A connection pool to one Postgres, and the right to lead it."""

from collections.abc import Callable, Iterable

from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import (
    AsyncConnection,
    AsyncEngine,
    AsyncSession,
    async_sessionmaker,
    create_async_engine,
)

from jobmanager.core.errors import StoreUnavailable
from jobmanager.core.ids import JobId
from jobmanager.services.ports import Actor
from jobmanager.store import schema
from jobmanager.store.unit_of_work import PostgresUnitOfWork

_LEADER_LOCK = 0x4C45_4144


class AlreadyLed(Exception):
    """Another JobManager leads this database."""


class Database:
    """The engine, its sessions and the leader's lock. `open` makes one, `close` ends it."""

    def __init__(self, engine: AsyncEngine) -> None:
        self.engine = engine
        self.sessions: async_sessionmaker[AsyncSession] = async_sessionmaker(
            engine, expire_on_commit=False
        )
        self._leader: AsyncConnection | None = None
        self.on_commit: Callable[[Iterable[JobId]], None] = lambda jobs: None
        """Told, after each commit, of the jobs that have new effects."""

    def unit_of_work(self, actor: Actor = Actor.JOBMANAGER) -> PostgresUnitOfWork:
        return PostgresUnitOfWork(self.sessions, self.on_commit, actor)

    async def migrate(self) -> None:
        await schema.upgrade(self.engine)

    async def lead(self) -> None:
        """Takes the lock that one JobManager holds as long as it lives."""
        self._leader = await self.engine.connect()
        taken = await self._leader.scalar(
            text("SELECT pg_try_advisory_lock(:key)"), {"key": _LEADER_LOCK}
        )
        await self._leader.commit()
        if not taken:
            await self._leader.close()
            self._leader = None
            raise AlreadyLed("another JobManager runs on this database: stop it, or use another")

    async def ping(self) -> None:
        try:
            async with self.engine.connect() as connection:
                await connection.execute(text("SELECT 1"))
        except OperationalError as error:
            raise StoreUnavailable(f"Postgres does not answer: {error.orig}") from error

    async def close(self) -> None:
        if self._leader is not None:
            await self._leader.close()
        await self.engine.dispose()


def open_database(url: str) -> Database:
    """A pool for `url`, any Postgres URL; psycopg is the driver whatever the URL says."""
    parsed = make_url(url)
    if not parsed.drivername.startswith("postgres"):
        raise ValueError(f"{parsed.drivername!r} is not Postgres: give postgresql://user@host/name")
    engine = create_async_engine(
        parsed.set(drivername="postgresql+psycopg"),
        pool_size=10,
        max_overflow=10,
        pool_timeout=5,
        pool_pre_ping=True,
        connect_args={"connect_timeout": 5, "application_name": "headgate"},
    )
    return Database(engine)
