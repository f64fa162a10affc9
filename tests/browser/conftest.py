import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.dashboard import Dashboard
from tests.support.databases import fresh_database
from tests.support.server import ServerProcess

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


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    found = shutil.which("chromium")
    assert found, "the tests of the dashboard need Chromium: make chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=_FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def dashboard(chromium: Browser, server: ServerProcess) -> Iterator[Dashboard]:
    """The dashboard in a window of its own. Nothing may have gone wrong in the console."""
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, color_scheme="light")
    opened = Dashboard(context.new_page(), server.url)
    yield opened
    context.close()
    assert opened.complaints == []
