"""Every view in light and dark, as pictures for the documentation, with what they show.

    HEADGATE_SCREENSHOTS=docs/screenshots pytest -m long tests/browser

Without the variable they go to a temporary directory, and are only looked at for size.
"""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.dashboard import PATIENCE, Dashboard
from tests.browser.test_dashboard import GRAPH, _small
from tests.support.server import ServerProcess, eventually

VIEWS = {
    "job": "jobs/{job}?task=revenue",
    "checkpoints": "jobs/{job}/checkpoints",
    "key-groups": "jobs/{job}/key-groups",
    "state": "jobs/{job}/state",
    "metrics": "jobs/{job}/metrics",
    "history": "jobs/{job}/history",
    "savepoints": "savepoints",
    "cluster": "cluster",
    "submit": "submit",
    "jobs": "jobs",
}


def a_job(name: str, path: str, **changes: Any) -> dict[str, Any]:
    vertices = [dict(one) for one in GRAPH["vertices"]]
    vertices[-1]["path"] = path
    document = {**GRAPH, "name": name, "vertices": vertices, "max_parallelism": 720, **changes}
    return {**document, "checkpointing": {"interval": "3s"}}


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_every_view_in_both_themes(
    dashboard: Dashboard, server: ServerProcess, tmp_path: Path
) -> None:
    target = Path(os.environ.get("HEADGATE_SCREENSHOTS", tmp_path))
    target.mkdir(parents=True, exist_ok=True)
    job = _prepare(server)
    dashboard.open("jobs")
    for name, view in VIEWS.items():
        dashboard.go(view.format(job=job))
        expect(dashboard.page.locator(".loading")).to_have_count(0, timeout=PATIENCE)
        if name == "key-groups":
            dashboard.page.get_by_role("button", name="Read sizes").click()
            dashboard.see("Sizes of checkpoint")
        if name == "savepoints":
            dashboard.page.get_by_role("region", name="Savepoints").get_by_role(
                "link"
            ).first.click()
        dashboard.page.wait_for_timeout(3_000)  # some live figures
        for theme in ("light", "dark"):
            dashboard.page.get_by_label("Theme").select_option(theme)
            dashboard.page.wait_for_timeout(300)
            taken = dashboard.page.screenshot(path=target / f"{name}-{theme}.png")
            assert len(taken) > 10_000
    server.http.patch(f"/v1/jobs/{job}?mode=cancel")


def _prepare(server: ServerProcess) -> str:
    """A job that was rescaled and has recovered, one that failed, one that has finished."""
    server.submit(
        {
            "name": "prices by day",
            "mode": "batch",
            "vertices": _small(),
        }
    )
    broken = a_job("orders", "orders", restart={"strategy": "none"})
    broken["vertices"][1]["where"] = "raise_error('no such currency: XYZ') IS NULL"
    failed = server.submit(broken)
    eventually(lambda: server.status(failed)["state"] == "failed", within=120)
    job = server.submit(a_job("revenue per auction", "revenue"))
    server.until_checkpoint(job, 2)
    started = server.http.patch(f"/v1/jobs/{job}/rescaling?parallelism=6").json()["request-id"]
    eventually(lambda: server.get(f"/v1/operations/{started}")["status"] == "completed", within=180)
    os.kill(server.status(job)["runner"]["pid"], signal.SIGKILL)
    eventually(lambda: server.status(job)["attempt"] == 3, within=60)
    server.until_state(job, "running")
    server.until_checkpoint(job, server.status(job)["last_checkpoint"]["number"] + 8)
    return job
