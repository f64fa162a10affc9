import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.databases import fresh_database
from tests.support.server import ServerProcess


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="hg", ignore_cleanup_errors=True) as name:
        yield Path(name)


@pytest.fixture(scope="module")
def server(directory: Path, postgres_url: str) -> Iterator[ServerProcess]:
    """One server for the module, on a database of its own."""
    with fresh_database(postgres_url) as url:
        made = ServerProcess(directory / "server", "--database-url", url)
        try:
            yield made.start()
        finally:
            made.clean_up()
