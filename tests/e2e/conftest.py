import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.renewed import Renewed, renewed
from tests.support.server import ServerProcess, a_server


@pytest.fixture
def directory() -> Iterator[Path]:
    """In a short path: the name of a socket has a limit."""
    with tempfile.TemporaryDirectory(prefix="hg", ignore_cleanup_errors=True) as name:
        yield Path(name)


@pytest.fixture(scope="module")
def servers_in_turn(postgres_url: str) -> Iterator[Renewed[ServerProcess]]:
    with renewed(lambda: a_server(postgres_url), lambda server: server.is_running) as shared:
        yield shared


@pytest.fixture
def server(
    servers_in_turn: Renewed[ServerProcess], request: pytest.FixtureRequest
) -> Iterator[ServerProcess]:
    """One server for the module, on a database of its own; another after a failure."""
    with servers_in_turn.lent_to(request.node) as lent:
        yield lent
