"""Connection pools to one Postgres: one for the work, a small one for the lease."""

from collections.abc import Callable, Iterable

from sqlalchemy import text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_sessionmaker,
    create_async_engine,
)

from jobmanager.core.ids import JobId
from jobmanager.services.ports.history import Actor
from jobmanager.store import schema
from jobmanager.store.leases import PostgresLeases
from jobmanager.store.outages import outages_named
from jobmanager.store.unit_of_work import Leader, PostgresUnitOfWork

_MOST_IDLE_MS = 4_000
_UNREADABLE = (
    "it cannot be read: write postgresql://user:password@host:5432/name, with special characters "
    "of the password percent-encoded, such as %40 for @ and %2F for /"
)


class Database:
    """The engines and their sessions. `open_database` makes one, `close` ends it."""

    def __init__(self, engine: AsyncEngine, for_lease: AsyncEngine) -> None:
        self.engine = engine
        self._for_lease = for_lease
        self.sessions: async_sessionmaker[AsyncSession] = async_sessionmaker(
            engine, expire_on_commit=False
        )
        self.leases = PostgresLeases(for_lease)
        self.on_commit: Callable[[Iterable[JobId]], None] = lambda jobs: None
        """Told, after each commit, of the jobs that have new effects."""
        self.leader: Leader | None = None
        """Not None: a unit of work commits only in the term in which it was begun."""

    def unit_of_work(self, actor: Actor = Actor.JOBMANAGER) -> PostgresUnitOfWork:
        return PostgresUnitOfWork(self.sessions, self.on_commit, self.leader, actor)

    async def migrate(self) -> None:
        await schema.upgrade(self.engine)

    async def ping(self) -> None:
        with outages_named():
            async with self.engine.connect() as connection:
                await connection.execute(text("SELECT 1"))

    async def close(self) -> None:
        await self._for_lease.dispose()
        await self.engine.dispose()


def parse_url(text: str) -> URL:
    """The URL of a Postgres, which shows its password to nobody who prints it. psycopg is the
    driver whatever the text says. Raises ValueError with a message that does not repeat the text.
    """
    try:
        parsed = make_url(text)
    except Exception:
        # not even as the cause: what could not be read may be a piece of the password
        raise ValueError(_UNREADABLE) from None
    if not parsed.drivername.startswith("postgres"):
        raise ValueError(f"{parsed.drivername!r} is not Postgres: give postgresql://user@host/name")
    if password := parsed.query.get("password"):
        parsed = parsed.difference_update_query(["password"]).set(password=str(password))
    return parsed.set(drivername="postgresql+psycopg")


def open_database(url: str | URL) -> Database:
    """A pool for `url`, any Postgres URL."""
    psycopg_url = parse_url(url) if isinstance(url, str) else url
    # The lease has connections of its own: a flood of requests must not cost us the lead.
    return Database(
        _engine(psycopg_url, size=10, more=30, patience=5),
        _engine(psycopg_url, size=1, more=1, patience=2),
    )


def _engine(url: URL, size: int, more: int, patience: float) -> AsyncEngine:
    return create_async_engine(
        url,
        pool_size=size,
        max_overflow=more,
        pool_timeout=patience,
        pool_pre_ping=True,
        hide_parameters=True,  # what is in a row is in no error, and so in no log
        connect_args={
            "connect_timeout": 5,
            "application_name": "headgate",
            # A leader that is frozen in the middle of a transaction gives up its locks.
            "options": f"-c idle_in_transaction_session_timeout={_MOST_IDLE_MS}",
            # A machine that is gone is noticed, and not waited for until TCP gives up.
            "keepalives_idle": 5,
            "keepalives_interval": 2,
            "keepalives_count": 3,
            "tcp_user_timeout": 10_000,
        },
    )
