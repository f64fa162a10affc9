"""Translates the driver's errors when Postgres does not answer into domain errors."""

from collections.abc import Iterator
from contextlib import contextmanager

from psycopg.errors import IdleInTransactionSessionTimeout
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from jobmanager.core.errors import StoreUnavailable, TooBusy


@contextmanager
def outages_named() -> Iterator[None]:
    """Raise `StoreUnavailable` or `TooBusy` for errors that are not the caller's fault."""
    try:
        yield
    except Exception as error:
        raise_if_outage(error)
        raise


def raise_if_outage(error: BaseException | None) -> None:
    if isinstance(error, PoolTimeout):
        raise TooBusy("every connection to Postgres is in use") from error
    if isinstance(error, DBAPIError) and _is_outage(error):
        first_line = str(error).partition("\n")[0]
        raise StoreUnavailable(f"Postgres does not answer: {first_line}") from error


def _is_outage(error: DBAPIError) -> bool:
    if isinstance(error, OperationalError) or error.connection_invalidated:
        return True
    # This process was suspended for so long that Postgres ended its transaction.
    return isinstance(error.orig, IdleInTransactionSessionTimeout)
