"""Warm runners: a job starts in a process that waits for it, and none is left behind."""

import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_exactly_once import RATE, a_bounded_job
from tests.support.oracle import Bids, generator_started_at, read_windows, twice
from tests.support.renewed import Renewed, renewed
from tests.support.server import ServerProcess, a_server, eventually, processes_of

ROWS = 1200


@pytest.fixture(scope="module")
def servers_in_turn(postgres_url: str) -> Iterator[Renewed[ServerProcess]]:
    @contextmanager
    def make() -> Iterator[ServerProcess]:
        with tempfile.TemporaryDirectory(prefix="hg", ignore_cleanup_errors=True) as name:
            classes = {"HEADGATE_CLASS_ARCHIVES": name}
            with a_server(postgres_url, "--warm-runners", "1", environment=classes) as made:
                yield made

    with renewed(make, lambda server: server.is_running) as shared:
        yield shared


def waiting(server: ServerProcess) -> list[Path]:
    """The homes of the processes that are primed and wait."""
    homes = (server.directory / "runners").glob("*")
    return [
        one
        for one in homes
        if (one / "ready").exists() and "registered" not in (one / "runner.log").read_text()
    ]


def archives_of(server: ServerProcess) -> list[Path]:
    """Spark's classes as a JVM maps them."""
    return list(Path(server.environment["HEADGATE_CLASS_ARCHIVES"]).glob("*.jsa"))


def history(server: ServerProcess, job: str, kind: str) -> list[dict[str, Any]]:
    items = server.get(f"/v1/jobs/{job}/history?limit=1000")["items"]
    return [one for one in items if one["kind"] == kind]


@pytest.mark.long
def test_a_job_and_its_restart_take_warm_processes(server: ServerProcess) -> None:
    [home] = eventually(lambda: waiting(server) or None, within=280)
    [archive] = archives_of(server)
    document = a_bounded_job("warm")
    document["vertices"][0]["rows"] = ROWS
    job = server.submit(document)
    status = server.until_state(job, "running")
    eventually(lambda: server.status(job)["last_checkpoint"], within=60)
    began = generator_started_at(
        server.directory / "storage" / "jobs" / job / "attempts" / "1" / "out"
    )
    assert status["runner"]["id"] == home.name

    [second] = eventually(lambda: waiting(server) or None, within=280)
    maps = [Path(f"/proc/{pid}/maps").read_text() for pid in processes_of(second.name)]
    assert any(str(archive) in one for one in maps), "its JVM does without the archive"
    if server.status(job)["state"] == "running":
        os.kill(status["runner"]["pid"], signal.SIGKILL)
    server.until_state(job, "finished")

    launched = history(server, job, "runner_launched")
    assert {one["cause"] for one in launched} == {"on a warm runner"}
    written = read_windows(server.directory / "data" / "warm")
    assert not twice(written)
    assert set(written) == Bids(RATE, began).windows(ROWS, 2000)


def test_a_job_with_static_settings_starts_cold_and_says_so(server: ServerProcess) -> None:
    document = {**a_bounded_job("static"), "spark": {"spark.ui.retainedTasks": "10"}}
    document["vertices"][0]["rows"] = 200
    job = server.submit(document)

    launched = eventually(lambda: history(server, job, "runner_launched") or None, within=60)

    told = "cold: spark.ui.retainedTasks can be set only when Spark starts"
    assert launched[0]["cause"] == told
    server.http.patch(f"/v1/jobs/{job}")


@pytest.mark.long
def test_those_that_wait_end_with_the_server_however_it_ends(server: ServerProcess) -> None:
    for number in (signal.SIGKILL, signal.SIGTERM):
        eventually(lambda: waiting(server) or None, within=280)
        server.stop(number)
        eventually(lambda: not server.runner_processes(), within=60)
        if number is signal.SIGKILL:
            server.start()
