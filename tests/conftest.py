import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from jobmanager.store.database import Database, open_database
from jobmanager.store.embedded import EmbeddedPostgres
from tests.support.cluster import Cluster, a_cluster
from tests.support.databases import PATIENT, fresh_database
from tests.support.renewed import pytest_runtest_makereport  # noqa: F401 - a hook of pytest

# A JVM more for each server, for nothing. Tests of warm runners say how many they want.
os.environ.setdefault("HEADGATE_WARM_RUNNERS", "0")
# A slow machine is not a wrong result. `make test` says the same on every machine; `make chaos`
# draws examples that nobody has seen (HEADGATE_NEW_EXAMPLES).
settings.register_profile(
    "headgate", deadline=None, derandomize="HEADGATE_NEW_EXAMPLES" not in os.environ
)
settings.load_profile("headgate")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A real Postgres for the run. In a short path: its socket's name has a limit."""
    with tempfile.TemporaryDirectory(prefix="hg", ignore_cleanup_errors=True) as directory:
        postgres = EmbeddedPostgres.start(Path(directory) / "pg")
        try:
            yield postgres.url
        finally:
            postgres.stop()


@pytest.fixture(scope="module")
def database_url(postgres_url: str) -> Iterator[str]:
    """A migrated database for the test module."""
    with fresh_database(postgres_url) as url:
        asyncio.run(_migrate(url))
        yield url


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    opened = open_database(database_url, PATIENT)
    yield opened
    await opened.close()


@pytest.fixture
async def cluster(database: Database, tmp_path: Path) -> AsyncIterator[Cluster]:
    async with a_cluster(database, tmp_path) as made:
        yield made


async def _migrate(url: str) -> None:
    opened = open_database(url, PATIENT)
    await opened.migrate()
    await opened.close()
