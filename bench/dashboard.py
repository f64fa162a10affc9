"""The dashboard with many jobs in the database: how soon its first page can be used, and whether
its memory grows under live updates.

    python -m bench.dashboard --jobs 1000 --minutes 10

Jobs are rows in a real Postgres behind a real server; some of them are made to look alive, and
their progress is written each second as heartbeats write it. The browser is Debian's Chromium.
"""

import argparse
import json
import shutil
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from playwright.sync_api import Page, sync_playwright
from sqlalchemy import Connection, create_engine, text

from jobmanager.store.embedded import EmbeddedPostgres
from tests.browser.conftest import _FLAGS
from tests.support.builders import a_document
from tests.support.databases import fresh_database
from tests.support.server import ServerProcess

_SECONDS = 1000
_USABLE = "() => document.querySelectorAll('table.jobs tbody tr').length > 0"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--live", type=int, default=50, help="of them, with progress each second")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--loads", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hg", ignore_cleanup_errors=True) as name:
        postgres = EmbeddedPostgres.start(Path(name) / "pg")
        try:
            with fresh_database(postgres.url) as url:
                _measure(Path(name), url, given)
        finally:
            postgres.stop()


def _measure(directory: Path, url: str, given: argparse.Namespace) -> None:
    server = ServerProcess(directory / "server", "--database-url", url, "--warm-runners", "0")
    try:
        server.start()
        live = _fill(url, given.jobs, given.live)
        began = time.monotonic()
        answer = server.http.get("/v1/jobs/summary?limit=2000")
        assert len(answer.json()["items"]) == given.jobs, answer.text[:500]
        api_ms = round(1000 * (time.monotonic() - began))
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=[*_FLAGS, "--js-flags=--expose-gc"]
            )
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            loads = [_load(page, server.url) for _ in range(given.loads)]
            heap = _watch(page, url, live, given.minutes)
            browser.close()
        result = {
            "jobs": given.jobs,
            "live": given.live,
            "summary_ms": api_ms,
            "summary_bytes": len(answer.content),
            "interactive_ms": sorted(loads),
            "heap_mb_each_half_minute": heap,
        }
        print(json.dumps(result, indent=1))  # noqa: T201
    finally:
        server.clean_up()


def _load(page: Page, url: str) -> int:
    """Milliseconds from the request to a table that can be used."""
    page.goto("about:blank")
    began = time.monotonic()
    page.goto(f"{url}/#/jobs")
    page.wait_for_function(_USABLE, timeout=60 * _SECONDS)
    page.get_by_label("Search jobs").fill("job")
    return round(1000 * (time.monotonic() - began))


def _watch(page: Page, url: str, live: list[Any], minutes: float) -> list[float]:
    engine = create_engine(url)
    heap: list[float] = []
    end = time.monotonic() + 60 * minutes
    rows, looked = 0, 0.0
    with engine.connect() as connection:
        while time.monotonic() < end:
            rows += 100
            _progress(connection, live, rows)
            page.wait_for_timeout(_SECONDS)
            if time.monotonic() - looked >= 30:
                looked = time.monotonic()
                used = page.evaluate("() => { gc(); return performance.memory.usedJSHeapSize }")
                heap.append(round(used / 1e6, 1))
    engine.dispose()
    return heap


def _fill(url: str, jobs: int, live: int) -> list[Any]:
    """Jobs as rows, each with an attempt and a checkpoint; ids of those that seem alive."""
    engine = create_engine(url)
    now = datetime.now(UTC)
    found = []
    with engine.begin() as connection:
        for number in range(jobs):
            is_live = number < live
            job = uuid4()
            at = now - timedelta(minutes=number)
            values = {
                "id": job,
                "name": f"job {number:04}",
                "graph": json.dumps(a_document(name=f"job {number:04}")),
                "status": "running" if is_live else ("finished", "failed", "cancelled")[number % 3],
                "at": at,
                "ended": None if is_live else at + timedelta(minutes=5),
                "attempt_status": "running" if is_live else "cancelled",
            }
            connection.execute(text(_JOB), values)
            connection.execute(text(_ATTEMPT), values)
            connection.execute(text(_CHECKPOINT), values)
            if is_live:
                found.append(job)
    engine.dispose()
    return found


def _progress(connection: Connection, live: list[Any], rows: int) -> None:
    region = {
        "region": "out", "batch": rows, "is_active": True, "is_idle": False, "input_rows": rows,
        "output_rows": rows // 10, "input_rows_per_second": 100.0, "watermark": None,
    }  # fmt: skip
    connection.execute(
        text(
            "UPDATE attempts SET progress = CAST(:progress AS jsonb), progress_at = now() "
            "WHERE job_id = ANY(:jobs)"
        ),
        {"progress": json.dumps([region]), "jobs": live},
    )
    connection.commit()


_JOB = """
INSERT INTO jobs (id, name, graph, revision, parallelism, max_parallelism, status, desired, reason,
  since, attempt, failed_at, submitted_at, ended_at, status_times, next_checkpoint,
  failed_checkpoints)
VALUES (:id, :name, CAST(:graph AS json), 1, 2, 720, :status, 'running', 'all queries run', :at, 1,
  '[]', :at, :ended, '{}', 2, 0)
"""
_ATTEMPT = """
INSERT INTO attempts (job_id, number, status, launched_at, running_at, ended_at)
VALUES (:id, 1, :attempt_status, :at, :at, :ended)
"""
_CHECKPOINT = """
INSERT INTO checkpoints (job_id, number, attempt, kind, status, triggered_at, expires_at, ended_at,
  manifest, batches, bytes, new_bytes)
VALUES (:id, 1, 1, 'periodic', 'completed', :at, :at, :at, 'm', '{}', 1000000, 1000)
"""


if __name__ == "__main__":
    main()
