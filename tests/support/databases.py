"""Fresh databases on the run's Postgres."""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import psycopg
from sqlalchemy.engine import make_url

from jobmanager.store.database import Waits

PATIENT = Waits(idle_in_transaction=120, connection=60, lease_connection=60)
"""For tests in one process on a machine that may stand still for seconds."""


@contextmanager
def fresh_database(postgres_url: str) -> Iterator[str]:
    """The URL of a new, empty database, dropped afterwards."""
    name = f"test_{uuid4().hex[:12]}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    try:
        yield make_url(postgres_url).set(database=name).render_as_string(hide_password=False)
    finally:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
