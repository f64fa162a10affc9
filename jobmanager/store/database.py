"""Connection pools to one Postgres: one for all work, and a small one for the lease."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import text
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_sessionmaker,
    create_async_engine,
)

from jobmanager.core.ids import JobId
from jobmanager.services.ports.history import Actor
from jobmanager.store import idle_connections, schema
from jobmanager.store.audit import PostgresAudit
from jobmanager.store.database_url import parse_url
from jobmanager.store.leases import PostgresLeases
from jobmanager.store.outages import outages_named
from jobmanager.store.tokens import PostgresTokens
from jobmanager.store.unit_of_work import Leader, PostgresUnitOfWork, ReadingUnitOfWork

_TIME = """
SELECT greatest(
    clock_timestamp(),
    (SELECT max(heartbeat_at) FROM runners WHERE exited_at IS NULL),
    (SELECT max(at) FROM (SELECT at FROM history ORDER BY id DESC LIMIT 100) AS newest))
"""


@dataclass(frozen=True, slots=True)
class Waits:
    """How long a server is waited for, in seconds, before its transaction or request fails."""

    idle_in_transaction: float = 4
    """Less than the lease: a frozen leader must give up its locks before the next server leads."""
    connection: float = 5
    """For a free connection of the pool."""
    lease_connection: float = 2


AS_USUAL = Waits()


@dataclass(frozen=True, slots=True)
class PoolSize:
    """How many connections there are, and how many more where these are not enough."""

    kept: int = 10
    more: int = 30


READER_POOL = PoolSize(kept=4, more=14)
"""Of a reader process: its reads, and the look-ups of tokens."""


class Database:
    """The engines and their sessions. `open_database` makes a `Database`, `close` ends it."""

    def __init__(self, engine: AsyncEngine, for_lease: AsyncEngine) -> None:
        self.engine = engine
        self._for_lease = for_lease
        self.sessions: async_sessionmaker[AsyncSession] = async_sessionmaker(
            engine, expire_on_commit=False
        )
        # Without BEGIN and ROLLBACK, which are two waits for Postgres in every read.
        one_by_one: async_sessionmaker[AsyncSession] = async_sessionmaker(
            engine.execution_options(isolation_level="AUTOCOMMIT"), autoflush=False
        )
        self.leases = PostgresLeases(for_lease)
        self.tokens = PostgresTokens(self.sessions)
        self._reading_sessions = one_by_one
        self.audit = PostgresAudit(one_by_one)
        self.on_commit: Callable[[Iterable[JobId]], None] = lambda jobs: None
        """Called after each commit with the jobs that have new effects."""
        self.leader: Leader | None = None
        """If set, a unit of work commits only in the term in which it began."""

    def unit_of_work(
        self,
        actor: Actor = Actor.JOBMANAGER,
        actor_name: str | None = None,
        *,
        only_reads: bool = False,
    ) -> PostgresUnitOfWork:
        if only_reads:
            return ReadingUnitOfWork(self._reading_sessions)
        return PostgresUnitOfWork(self.sessions, self.on_commit, self.leader, actor, actor_name)

    async def migrate(self) -> None:
        await schema.upgrade(self.engine)

    async def ping(self) -> None:
        with outages_named():
            async with self.engine.connect() as connection:
                await connection.execute(text("SELECT 1"))

    async def time(self) -> datetime:
        """What time it is: by the database's clock, and no earlier than what the last leader wrote
        in heartbeats and in the history. After the clock was set back, restarts and checkpoints
        that are due soon would not be due for as long.
        """
        with outages_named():
            async with self.engine.connect() as connection:
                found = await connection.execute(text(_TIME))
                now: datetime = found.scalar_one()
                return now

    async def close(self) -> None:
        await self._for_lease.dispose()
        await self.engine.dispose()


def open_database(
    url: str | URL,
    waits: Waits = AS_USUAL,
    pool: PoolSize = PoolSize(),  # noqa: B008 (frozen)
) -> Database:
    """Open the pools for `url`, any Postgres URL."""
    psycopg_url = parse_url(url) if isinstance(url, str) else url
    # The lease has connections of its own: a flood of requests must not end the leadership.
    return Database(
        _engine(psycopg_url, pool.kept, pool.more, waits.connection, waits.idle_in_transaction),
        _engine(psycopg_url, 1, 1, waits.lease_connection, waits.idle_in_transaction),
    )


def _engine(url: URL, size: int, more: int, patience: float, idle: float) -> AsyncEngine:
    engine = create_async_engine(
        url,
        pool_size=size,
        max_overflow=more,
        pool_timeout=patience,
        hide_parameters=True,  # what is in a row is in no error, and so in no log
        connect_args={
            "connect_timeout": 5,
            "application_name": "headgate",
            # A leader that is frozen in the middle of a transaction loses its locks.
            "options": f"-c idle_in_transaction_session_timeout={int(idle * 1000)}",
            # A machine that has gone is noticed before TCP gives up.
            "keepalives_idle": 5,
            "keepalives_interval": 2,
            "keepalives_count": 3,
            "tcp_user_timeout": 10_000,
        },
    )
    idle_connections.ping(engine.sync_engine)
    return engine
