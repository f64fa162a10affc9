import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Playwright, sync_playwright

from tests.browser.dashboard import Dashboard
from tests.support.renewed import Renewed, renewed
from tests.support.server import ServerProcess, a_server

_START_MS = 120_000
_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    # else it looks for its maker's servers at every start
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


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


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="module")
def browsers(playwright: Playwright) -> Iterator[Renewed[Browser]]:
    found = shutil.which("chromium")
    assert found, "the tests of the dashboard need Chromium: make chromium"

    @contextmanager
    def make() -> Iterator[Browser]:
        browser = playwright.chromium.launch(executable_path=found, args=_FLAGS, timeout=_START_MS)
        yield browser
        browser.close()

    with renewed(make, Browser.is_connected, outlives_failures=True) as shared:
        yield shared


@pytest.fixture
def chromium(browsers: Renewed[Browser], request: pytest.FixtureRequest) -> Iterator[Browser]:
    with browsers.lent_to(request.node) as lent:
        yield lent


@pytest.fixture
def dashboard(chromium: Browser, server: ServerProcess) -> Iterator[Dashboard]:
    """The dashboard in a window of its own. Nothing may have gone wrong in the console."""
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, color_scheme="light")
    opened = Dashboard(context.new_page(), server.url)
    yield opened
    context.close()
    assert opened.complaints == []
