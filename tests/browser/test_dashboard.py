"""The dashboard in a real Chromium, against a real server with a real job.

One job for everything, since a Spark session takes longer to start than most of this.
"""

import os
import re
import signal
from typing import Any

import pytest
import yaml
from playwright.sync_api import expect

from tests.browser.dashboard import PATIENCE, Dashboard
from tests.support.server import ServerProcess, eventually, freeze_all

GROUPS = 12
GRAPH: dict[str, Any] = {
    "name": "bids per auction",
    "meta": {
        "owner": "auctions team",
        "description": "Revenue of each auction.",
        "runbook": "https://wiki.example.org/bids",
        "labels": {"tier": "1"},
    },
    "parallelism": 2,
    "max_parallelism": GROUPS,
    "checkpointing": {"interval": "1h"},
    "restart": {"strategy": "fixed_delay", "attempts": 10, "delay": "500ms"},
    "execution": {"batch_interval": "500ms"},
    "vertices": [
        {
            "id": "bids",
            "op": "source",
            "connector": "generator",
            "rows_per_second": 50,
            "columns": {"auction": "id % 40", "price": "id", "ts": "ts"},
            "watermark": {"column": "ts", "delay": "1s"},
        },
        {"id": "big", "op": "filter", "inputs": ["bids"], "where": "price > 10"},
        {
            "id": "revenue",
            "op": "window",
            "inputs": ["big"],
            "key": ["auction"],
            "time": "ts",
            "window": {"tumbling": "2s"},
            "aggregate": {"revenue": "sum(price)"},
        },
        {
            "id": "out",
            "op": "sink",
            "inputs": ["revenue"],
            "connector": "files",
            "format": "parquet",
            "path": "out",
        },
    ],
}
SUBTASKS = ["bids/0", "out/0", "revenue/0", "revenue/1"]
VIEWS = ("", "checkpoints", "key-groups", "metrics", "history", "savepoints", "logs")


def test_a_job_from_submission_to_cancellation(dashboard: Dashboard, server: ServerProcess) -> None:
    page = dashboard.page

    # Nothing there: it says what to do. A graph is checked as it is typed.
    dashboard.open()
    dashboard.see("No jobs yet")
    page.get_by_role("link", name="Submit a job").click()
    editor = page.get_by_label("Job graph as YAML")
    broken = yaml.safe_dump(GRAPH).replace("where: price > 10", "were: price > 10")
    editor.fill(broken)
    faults = page.get_by_role("alert")
    expect(faults.get_by_text("big.where")).to_be_visible(timeout=PATIENCE)
    expect(faults.get_by_text("big.were")).to_be_visible()
    submit = page.get_by_role("button", name="Submit", exact=True)
    expect(submit).to_be_disabled()
    editor.fill(yaml.safe_dump(GRAPH))
    dashboard.see("The graph is sound. It would run as 2 tasks:")
    assert dashboard.findings() == []
    assert dashboard.overlaps() == []
    submit.click()

    # It runs: the graph has its tasks, how rows travel, and live figures.
    dashboard.see_state("running")
    job = dashboard.job
    graph = page.get_by_role("group", name="Job graph")
    expect(graph.get_by_text("hash", exact=True)).to_be_visible()
    expect(graph.get_by_role("button", name="bids → big")).to_contain_text("×2")
    expect(graph.get_by_role("button", name="bids → big")).to_contain_text(
        re.compile(r"in[1-9][\d.]*/s"), timeout=PATIENCE
    )
    expect(graph.get_by_text("tumbling 2s, key: auction, revenue = sum(price)")).to_be_visible()
    assert dashboard.overlaps() == []
    _watch_a_checkpoint(dashboard, server, job)

    dashboard.tab("Graph")
    graph.get_by_role("button", name="revenue → out").click()
    subtasks = page.get_by_role("region", name="Subtasks").get_by_role("rowheader")
    expect(subtasks).to_have_text(["out/0", "revenue/0", "revenue/1"], timeout=PATIENCE)

    # A savepoint, and what stays of the operation; its files are as they were written.
    dashboard.act("Savepoint", "Take it")
    expect(dashboard.operation).to_contain_text("Savepointcompleted", timeout=PATIENCE)
    dashboard.tab("Savepoints")
    page.get_by_role("region", name="Savepoints").get_by_role("link").first.click()
    page.get_by_role("button", name="Verify", exact=True).click()
    dashboard.see(re.compile("Every file is as it was written"))

    _rescale(dashboard, server, job)
    _kill_the_runner(dashboard, server, job)
    _see_what_operators_ask(dashboard)
    _look_everywhere(dashboard, job)

    # Cancelled, and the list knows it without a reload.
    dashboard.go(f"jobs/{job}")
    dashboard.act("Cancel", "Cancel the job")
    dashboard.see_state("cancelled")
    page.get_by_role("link", name="Jobs", exact=True).first.click()
    row = page.get_by_role("row").filter(has_text="bids per auction")
    expect(row).to_contain_text("cancelled", timeout=PATIENCE)
    expect(page.get_by_role("button", name="cancelled 1")).to_be_visible()
    row.get_by_role("button", name="tier=1").click()
    chosen = page.get_by_role("group", name="Filter by label").get_by_role("button")
    expect(chosen).to_contain_text("tier=1")
    expect(row).to_be_visible()
    chosen.click()
    expect(chosen).to_have_count(0)
    assert server.status(job)["state"] == "cancelled"


def _watch_a_checkpoint(dashboard: Dashboard, server: ServerProcess, job: str) -> None:
    """Its runner is frozen first, so that nobody can ack before we look."""
    runner = server.status(job)["runner"]["pid"]
    freeze_all(lambda: [runner])
    try:
        dashboard.act("Checkpoint", "Take it")
        dashboard.see("0 of 4 subtasks acked")
        acks = dashboard.page.get_by_role("region", name="Acks of checkpoint 1")
        expect(acks.get_by_role("rowheader")).to_have_text(SUBTASKS)
        expect(acks.get_by_text("awaited")).to_have_count(4)
    finally:
        os.kill(runner, signal.SIGCONT)
    dashboard.see("4 of 4 subtasks acked")
    expect(acks.get_by_text("awaited")).to_have_count(0)
    answered = server.get(f"/v1/jobs/{job}/checkpoints/1")
    for ack in answered["acks"]:
        if ack["pointer"]:
            expect(acks.get_by_title(ack["pointer"])).to_be_visible()
    expect(dashboard.page.get_by_label(re.compile("^Duration and size of"))).to_be_visible()


def _rescale(dashboard: Dashboard, server: ServerProcess, job: str) -> None:
    page = dashboard.page
    dashboard.tab("Key groups")
    cells = page.locator(".key-map > i")
    expect(cells).to_have_count(GROUPS)
    assert _owners(dashboard) == [group % 2 for group in range(GROUPS)]

    actions = page.get_by_role("group", name="Actions")
    actions.get_by_role("button", name="Rescale").click()
    choice = page.get_by_role("dialog").get_by_role("combobox")
    expect(choice.locator("option")).to_have_text(["1", "3", "4", "6", "12"])
    expect(page.get_by_role("dialog").locator("code")).to_have_text(f"headgate rescale {job[:8]} 3")
    page.get_by_role("button", name="Rescale to 3").click()
    expect(dashboard.operation).to_contain_text("Rescalecompleted", timeout=PATIENCE)
    expect(dashboard.operation).to_contain_text("2 → 3 subtasks")

    # The map is another one by itself, and says what moved.
    expect(page.locator(".key-map > i[data-subtask='2']")).to_have_count(4, timeout=PATIENCE)
    assert _owners(dashboard) == [group % 3 for group in range(GROUPS)]
    moved = [group for group in range(GROUPS) if group % 3 != group % 2]
    shown = page.locator(".key-map > i.moved").evaluate_all(
        "cells => cells.map(one => Number(one.dataset.group))"
    )
    assert shown == moved
    assert server.get(f"/v1/jobs/{job}/key-groups")["parallelism"] == 3


def _owners(dashboard: Dashboard) -> list[int]:
    found: list[int] = dashboard.page.locator(".key-map > i").evaluate_all(
        "cells => cells.map(one => Number(one.dataset.subtask))"
    )
    return found


def _kill_the_runner(dashboard: Dashboard, server: ServerProcess, job: str) -> None:
    before = server.status(job)
    os.kill(before["runner"]["pid"], signal.SIGKILL)
    shown = dashboard.page.locator(".job-head")
    expect(shown).to_contain_text(f"Attempt{before['attempt'] + 1}, 1 restart", timeout=PATIENCE)
    dashboard.see_state("running")
    eventually(lambda: server.status(job)["region_states"], within=60)

    dashboard.tab("Exceptions & history")
    cause = dashboard.page.locator(".failure").first
    expect(cause).to_contain_text("SIGKILL", timeout=PATIENCE)
    expect(cause).to_contain_text(f"attempt {before['attempt']}")
    dashboard.see("Job restarting")


def _see_what_operators_ask(dashboard: Dashboard) -> None:
    """Whose job it is, what changed, when, and what a crash would cost."""
    head = dashboard.page.locator(".job-head")
    expect(head).to_contain_text("Owner: auctions team")
    runbook = head.get_by_role("link", name="Runbook")
    expect(runbook).to_have_attribute("href", "https://wiki.example.org/bids")
    expect(head).to_contain_text(re.compile(r"A crash now.*rows? again"), timeout=PATIENCE)
    dashboard.see("Parallelism 2 → 3")  # among the revisions, below the exceptions
    dashboard.tab("Metrics")
    dashboard.see("1 restart, 1 rescale, 1 deploy")
    changed = dashboard.page.get_by_role("list", name=re.compile("^What changed how the job runs"))
    expect(changed.get_by_role("link")).not_to_have_count(0)
    dashboard.tab("Graph")
    lines = dashboard.page.get_by_role("region", name="Connectors").get_by_role("rowheader")
    expect(lines).to_have_text(["bids", "out"])


def _look_everywhere(dashboard: Dashboard, job: str) -> None:
    """Every view, in both themes and on a phone: nothing that axe finds serious."""
    views = [f"jobs/{job}/{view}".rstrip("/") for view in VIEWS]
    found: list[tuple[str, str, str]] = []
    for view in [*views, "jobs", "savepoints", "cluster"]:
        dashboard.go(view)
        expect(dashboard.page.locator(".loading")).to_have_count(0, timeout=PATIENCE)
        for theme in ("light", "dark"):
            dashboard.page.get_by_label("Theme").select_option(theme)
            found += [(view, theme, one) for one in dashboard.findings()]
        dashboard.page.set_viewport_size({"width": 390, "height": 844})
        if dashboard.is_too_wide():
            found.append((view, "narrow", "the page scrolls sideways"))
        dashboard.page.set_viewport_size({"width": 1440, "height": 900})
    dashboard.page.get_by_label("Theme").select_option("system")
    assert found == []


def test_a_lost_server_is_noticed_and_found_again(
    dashboard: Dashboard, server: ServerProcess
) -> None:
    port = server.url.rsplit(":", 1)[1].strip("/")
    dashboard.open("jobs")
    dashboard.see("bids per auction")

    assert server.stop() == 0
    lost = dashboard.page.get_by_role("alert").filter(has_text="The connection to the server")
    expect(lost).to_be_visible(timeout=PATIENCE)

    server.start("--port", port)
    expect(lost).to_have_count(0, timeout=PATIENCE)
    job = server.submit({**GRAPH, "name": "submitted meanwhile", "vertices": _small()})
    expect(dashboard.page.get_by_role("link", name="submitted meanwhile")).to_be_visible(
        timeout=PATIENCE
    )
    server.http.patch(f"/v1/jobs/{job}?mode=cancel")
    # that it could not be reached is what this is about
    dashboard.complaints = [one for one in dashboard.complaints if "net::ERR" not in one]


@pytest.mark.long
def test_what_else_can_be_done(dashboard: Dashboard, server: ServerProcess) -> None:
    page = dashboard.page
    job = server.submit({**GRAPH, "name": "to be changed", "vertices": _writing_to("first")})
    server.until_state(job, "running")
    eventually(
        lambda: any(one["input_rows"] > 200 for one in server.status(job)["region_states"]),
        within=60,
    )
    assert server.http.post(f"/v1/jobs/{job}/checkpoints").status_code == 202
    server.until_checkpoint(job, 1)
    dashboard.open(f"jobs/{job}")

    # Its state, by key.
    dashboard.tab("State")
    page.get_by_label("Key: a value, or a JSON object of columns").fill("7")
    page.get_by_role("button", name="Look up").click()
    rows = page.get_by_role("region", name="State rows").get_by_role("row")
    expect(rows.nth(1)).to_contain_text("7", timeout=PATIENCE)
    # The rows of its sink, as a reader of the files finds them.
    dashboard.tab("Graph")
    page.get_by_role("button", name="revenue → out").click()
    page.get_by_role("button", name="Show rows").click()
    last = page.get_by_role("region", name="Last rows")
    expect(last.get_by_role("columnheader")).to_contain_text(
        ["auction", "window_start", "window_end", "revenue"], timeout=PATIENCE
    )
    expect(last.get_by_role("row").nth(1)).to_be_visible()
    dashboard.see(re.compile("^From batch"))

    dashboard.tab("Logs")
    dashboard.see("attempt_running")
    page.get_by_label("Search the log").fill("barrier_acked")
    page.get_by_label("Search the log").press("Enter")
    dashboard.see(re.compile('"checkpoint": 1'))

    # Upgraded, after a look at the plan.
    page.get_by_role("group", name="Actions").get_by_role("button", name="Upgrade").click()
    dialog = page.get_by_role("dialog")
    editor = dialog.get_by_label("Job graph")
    editor.fill(editor.input_value().replace("price > 10", "price > 20"))
    upgrade = dialog.get_by_role("button", name="Upgrade", exact=True)
    expect(upgrade).to_be_disabled()
    dialog.get_by_role("button", name="Show the plan").click()
    expect(dialog.get_by_role("status")).to_contain_text("Compatible", timeout=PATIENCE)
    expect(dialog.get_by_role("status")).to_contain_text("price > 20")
    upgrade.click()
    expect(dashboard.operation).to_contain_text("Upgradecompleted", timeout=PATIENCE)
    assert "price > 20" in str(server.get(f"/v1/jobs/{job}/graph"))

    # Stopped: the savepoint is labelled, and another job begins there.
    dashboard.act("Stop", "Stop the job")
    dashboard.see_state("finished")
    dashboard.tab("Savepoints")
    page.get_by_role("region", name="Savepoints").get_by_role("link").first.click()
    page.get_by_role("button", name="Label", exact=True).click()
    dialog.get_by_label("Name").fill("reason")
    dialog.get_by_label("Text; empty removes the label").fill("for a test")
    dialog.get_by_role("button", name="Label it").click()
    dashboard.see("reason=for a test")
    savepoint = re.search("savepoint=([0-9a-f]+)", page.url)
    assert savepoint
    page.get_by_role("button", name="Start a job from it").click()
    graph = dialog.get_by_label("Job graph")
    expect(graph).to_have_value(re.compile("to be changed"))
    changed = graph.input_value().replace("to be changed", "forked").replace("first", "second")
    graph.fill(changed)
    dialog.get_by_role("button", name="Start", exact=True).click()
    dashboard.see_state("running")
    fork = dashboard.job
    assert fork != job
    dashboard.act("Cancel", "Cancel the job")
    dashboard.see_state("cancelled")

    # The savepoint goes when its owner says so.
    dashboard.go(f"savepoints/{savepoint[1]}")
    dashboard.see("forked")
    page.get_by_role("button", name="Dispose", exact=True).click()
    dialog.get_by_role("button", name="Delete its files").click()
    dashboard.see("disposed")
    assert server.get(f"/v1/savepoints/{savepoint[1]}")["status"] == "disposed"


def _writing_to(path: str) -> list[dict[str, Any]]:
    return [
        {**vertex, "path": path} if vertex["op"] == "sink" else vertex
        for vertex in GRAPH["vertices"]
    ]


def _small() -> list[dict[str, object]]:
    return [
        {"id": "one", "op": "source", "connector": "table", "schema": "a INT", "rows": [{"a": 1}]},
        {"id": "out", "op": "sink", "inputs": ["one"], "connector": "blackhole"},
    ]
