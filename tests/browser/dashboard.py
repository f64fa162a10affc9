"""The dashboard as a person uses it: by what is written on it."""

import re
from pathlib import Path
from typing import Any

from playwright.sync_api import ConsoleMessage, Locator, Page, expect

SECONDS = 1000
PATIENCE = 90 * SECONDS
"""A slow machine is not a wrong result."""
AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
_RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}

_OVERLAPS = """() => {
  const seen = [];
  for (const element of document.querySelectorAll(".graph *")) {
    if (![...element.childNodes].some(one => one.nodeType === 3 && one.data.trim())) continue;
    const range = document.createRange();
    range.selectNodeContents(element);
    const { left, right, top, bottom } = range.getBoundingClientRect();
    // what an ellipsis stands for is not to be seen
    const isClipped = getComputedStyle(element).overflowX === "hidden";
    const end = isClipped ? Math.min(right, element.getBoundingClientRect().right) : right;
    seen.push({ element, text: element.textContent, left, right: end, top, bottom });
  }
  // side by side, less than 3 px apart: they read as one word
  const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > -3
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2;
  return seen.flatMap((a, i) => seen.slice(i + 1)
    .filter(b => !a.element.contains(b.element) && meet(a, b))
    .map(b => `${a.text} / ${b.text}`));
}"""


class Dashboard:
    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.complaints: list[str] = []
        page.set_default_timeout(PATIENCE)
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def open(self, view: str = "") -> None:
        """`view` is what comes after the #."""
        self.page.goto(f"{self.url}/#/{view}")
        expect(self.page.get_by_role("status").filter(has_text="live")).to_be_visible(
            timeout=PATIENCE
        )

    def go(self, view: str) -> None:
        """Within the page, as a link does."""
        self.page.evaluate("view => { location.hash = view }", f"#/{view}")

    def tab(self, title: str) -> None:
        parts = self.page.get_by_role("navigation", name="Parts of the job")
        parts.get_by_role("link", name=title, exact=True).click()

    def act(self, action: str, confirm: str) -> None:
        """A button of the job's header, and the answer to its question."""
        actions = self.page.get_by_role("group", name="Actions")
        actions.get_by_role("button", name=action, exact=True).click()
        self.page.get_by_role("dialog").get_by_role("button", name=confirm, exact=True).click()
        expect(self.page.get_by_role("dialog")).to_have_count(0, timeout=PATIENCE)

    def see(self, text: str | re.Pattern[str], within: Locator | None = None) -> Locator:
        found = (within or self.page.locator("main")).get_by_text(text).first
        expect(found).to_be_visible(timeout=PATIENCE)
        return found

    def see_state(self, state: str) -> None:
        shown = self.page.locator(".job-title .state")
        expect(shown).to_have_text(state, timeout=PATIENCE)

    @property
    def operation(self) -> Locator:
        """The last operation and how it went."""
        return self.page.get_by_label("Last operation")

    @property
    def job(self) -> str:
        found = re.search(r"#/jobs/([0-9a-f]{32})", self.page.url)
        assert found, self.page.url
        return found[1]

    def findings(self) -> list[str]:
        """What axe finds serious or worse on the page as it is."""
        if not self.page.evaluate("() => 'axe' in window"):
            # evaluated, not a script tag: the page's own policy allows none from elsewhere
            self.page.evaluate(AXE.read_text())
        found: list[dict[str, Any]] = self.page.evaluate(
            "async rules => (await axe.run(document, rules)).violations", _RULES
        )
        return [
            f"{one['id']}: {node['target']} {node['failureSummary']}"
            for one in found
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"]
        ]

    def overlaps(self) -> list[str]:
        """Texts of the job graph that lie on one another, or touch."""
        found: list[str] = self.page.evaluate(_OVERLAPS)
        return found

    def is_too_wide(self) -> bool:
        """Whether the page as a whole scrolls sideways."""
        return bool(
            self.page.evaluate("() => document.scrollingElement.scrollWidth > innerWidth + 1")
        )

    def _note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.text} {message.location.get('url', '')}".strip())
