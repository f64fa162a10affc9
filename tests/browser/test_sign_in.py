"""The dashboard of a server that needs tokens: signing in, and what each role is offered."""

import json
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from jobmanager.client.client import HeadgateClient
from jobmanager.core.access.roles import Role
from jobmanager.core.signals.signature import is_genuine
from jobmanager.services.clock import utc_now
from tests.browser.dashboard import PATIENCE, Dashboard
from tests.support.answering_server import an_answering_server
from tests.support.databases import fresh_database
from tests.support.server import GuardedServer


@pytest.fixture(scope="module")
def closed(postgres_url: str) -> Iterator[GuardedServer]:
    with (
        tempfile.TemporaryDirectory(prefix="hg", ignore_cleanup_errors=True) as name,
        fresh_database(postgres_url) as url,
    ):
        made = GuardedServer(Path(name) / "closed", "--database-url", url, "--require-tokens")
        try:
            made.begin()
            yield made
        finally:
            made.clean_up()


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, color_scheme="light")
    opened = context.new_page()
    opened.set_default_timeout(PATIENCE)
    yield opened
    context.close()


def sign_in(page: Page, token: str) -> None:
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()


def test_who_signs_in_is_offered_what_the_role_may_do(closed: GuardedServer, page: Page) -> None:
    with HeadgateClient(closed.url, token=closed.first_admin_token) as admin:
        viewer = admin.create_token("ann", Role.VIEWER)["token"]

        # nobody comes in without a token, or with a wrong one, and the address stays
        page.goto(f"{closed.url}/#/savepoints")
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        sign_in(page, "hg_wrong")
        expect(page.get_by_role("alert")).to_contain_text("token")
        assert page.url.endswith("#/savepoints")

        # a viewer sees everything, and changes nothing
        sign_in(page, viewer)
        expect(page.get_by_text("ann · viewer")).to_be_visible()
        expect(page.get_by_role("heading", name="Savepoints")).to_be_visible()
        expect(page.get_by_role("status").filter(has_text="live")).to_be_visible()
        page.get_by_role("link", name="Jobs").click()
        submit = page.get_by_role("button", name="Submit a job")
        expect(submit).to_be_disabled()
        assert "operator" in (submit.get_attribute("title") or "")
        expect(page.get_by_role("link", name="Access")).to_have_count(0)
        assert viewer not in page.url

        # the same page after a reload; not in another tab
        page.reload()
        expect(page.get_by_text("ann · viewer")).to_be_visible()
        other = page.context.new_page()
        other.goto(closed.url)
        expect(other.get_by_role("heading", name="Sign in")).to_be_visible()
        other.close()

        # a token that is revoked meanwhile
        admin.revoke_token("ann")
        page.get_by_role("link", name="Cluster").click()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()

    # an admin makes a token, which works, and the audit tells of it
    sign_in(page, closed.first_admin_token or "")
    page.get_by_role("link", name="Access").click()
    page.get_by_role("button", name="Create a token").click()
    page.get_by_label("Name").fill("ci")
    page.get_by_label("Role").select_option("operator")
    page.get_by_role("button", name="Create", exact=True).click()
    told = page.locator(".told-once .mono").inner_text()
    expect(page.get_by_role("row").filter(has_text="ci").first).to_contain_text("operator")
    expect(page.get_by_role("row").filter(has_text="POST /tokens").first).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    sign_in(page, told)
    expect(page.get_by_text("ci · operator")).to_be_visible()
    page.get_by_role("link", name="Jobs").click()
    expect(page.get_by_role("link", name="Submit a job")).to_be_visible()


def test_the_form_and_the_access_page_can_be_read_by_everybody(
    closed: GuardedServer, page: Page
) -> None:
    """No finding of axe."""
    dashboard = Dashboard(page, closed.url)
    page.goto(closed.url)
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    found = list(dashboard.findings())
    sign_in(page, closed.first_admin_token or "")
    page.get_by_role("link", name="Access").click()
    expect(page.get_by_role("heading", name="Tokens")).to_be_visible()
    found += dashboard.findings()
    assert found == []


@pytest.mark.long
def test_an_admin_creates_a_webhook_and_tests_it(closed: GuardedServer, page: Page) -> None:
    page.goto(closed.url)
    sign_in(page, closed.first_admin_token or "")
    with an_answering_server() as receiver:
        receiver.of["POST /hook"] = [(200, "thanks"), (500, "broken")]
        page.get_by_role("link", name="Webhooks").click()
        page.get_by_role("button", name="Create a webhook").click()
        page.get_by_label("Name", exact=True).fill("ops")
        page.get_by_label("URL of the receiver").fill(f"{receiver.url}/hook")
        page.get_by_role("button", name="Create", exact=True).click()
        key = page.locator(".told-once .mono").inner_text()
        row = page.get_by_role("row").filter(has_text="ops")
        expect(row).to_contain_text("restart, checkpoint_failed, stalled")
        assert "/hook" not in row.inner_text()
        found = list(Dashboard(page, closed.url).findings())

        row.get_by_role("button", name="Test").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name="Send a sample").click()
        expect(dialog.get_by_role("status")).to_contain_text("Delivered: answered 200")
        expect(dialog).to_contain_text("thanks")
        dialog.get_by_role("button", name="Send a sample").click()
        expect(dialog.get_by_role("status")).to_contain_text("Not delivered: answered 500")
        found += Dashboard(page, closed.url).findings()
        dialog.get_by_role("button", name="Back").click()
        row.get_by_role("button", name="Deliveries").click()
        expect(page.get_by_role("dialog")).to_contain_text("given_up")
        page.get_by_role("button", name="Close").click()

        header = receiver.headers[0]["Headgate-Signature"]
        body = json.dumps(receiver.asked[0][1], ensure_ascii=False).encode()
        assert is_genuine(header, key, body, utc_now(), timedelta(hours=1))
    row.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("No webhooks yet")).to_be_visible()
    assert found == []
