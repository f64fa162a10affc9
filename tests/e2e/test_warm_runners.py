"""Warm runners: a job starts in a process that waits for it, and none is left behind."""

import json
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
import pytest

from tests.e2e.test_exactly_once import RATE, a_bounded_job
from tests.support.oracle import Bids, generator_started_at, read_windows, twice
from tests.support.renewed import Renewed, renewed
from tests.support.server import ServerProcess, a_server, eventually, processes_of

ROWS = 120 * RATE
"""Two minutes: on a busy machine the next process is started a minute later, and not at all while
another waits that has served a job."""


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
    server.until_state(job, "finished", within=240)

    launched = history(server, job, "runner_launched")
    assert {one["cause"] for one in launched} == {"on a warm runner"}
    written = read_windows(server.directory / "data" / "warm")
    assert not twice(written)
    assert set(written) == Bids(RATE, began).windows(ROWS, 2000)


@pytest.mark.long
def test_a_job_with_static_settings_starts_cold_and_says_so(server: ServerProcess) -> None:
    document = {**a_bounded_job("static"), "spark": {"spark.ui.retainedTasks": "10"}}
    document["vertices"][0]["rows"] = 200
    job = server.submit(document)

    launched = eventually(lambda: history(server, job, "runner_launched") or None, within=60)

    told = "cold: spark.ui.retainedTasks can be set only when Spark starts"
    assert launched[0]["cause"] == told
    server.http.patch(f"/v1/jobs/{job}")


def a_small_job(name: str, **changes: Any) -> dict[str, Any]:
    """A batch job that counts a file of ten rows."""
    return {
        "name": name,
        "mode": "batch",
        "restart": {"strategy": "fixed_delay", "attempts": 5, "delay": "0s"},
        "vertices": [
            {
                "id": "rows",
                "op": "source",
                "connector": "files",
                "format": "json",
                "path": "small",
                "schema": "n LONG, odd LONG",
            },
            {
                "id": "sums",
                "op": "aggregate",
                "inputs": ["rows"],
                "key": ["odd"],
                "aggregate": {"total": "sum(n)"},
            },
            {
                "id": "out",
                "op": "sink",
                "inputs": ["sums"],
                "connector": "files",
                "format": "json",
                "path": name,
            },
        ],
        **changes,
    }


def write_rows(server: ServerProcess) -> None:
    rows = server.directory / "data" / "small"
    rows.mkdir(parents=True, exist_ok=True)
    (rows / "1.json").write_text("".join(f'{{"n": {n}, "odd": {n % 2}}}\n' for n in range(10)))


def totals(server: ServerProcess, name: str) -> list[int]:
    lines = [
        line
        for path in (server.directory / "data" / name).glob("*.json")
        for line in path.read_text().splitlines()
    ]
    return sorted(json.loads(line)["total"] for line in lines)


def runner_of(server: ServerProcess, job: str) -> dict[str, Any]:
    """The last runner of the job, also after its exit."""
    found = [one for one in server.get("/v1/runners")["items"] if one["job"] == job]
    newest: dict[str, Any] = max(found, key=lambda one: one["launched_at"])
    return newest


def log_of(server: ServerProcess, job: str) -> str:
    return server.http.get(f"/v1/jobs/{job}/logs").text


@pytest.mark.long
def test_small_jobs_in_a_row_share_a_process_and_nothing_else(server: ServerProcess) -> None:
    write_rows(server)
    jobs = []
    for number in range(3):
        job = server.submit(a_small_job(f"row{number}"))
        server.until_state(job, "finished")
        jobs.append(job)

    runners = [runner_of(server, job) for job in jobs]
    assert len({one["pid"] for one in runners}) == 1
    assert len({one["id"] for one in runners}) == 3
    for number, job in enumerate(jobs):
        assert totals(server, f"row{number}") == [20, 25]
        said = log_of(server, job)
        assert UUID(job).hex in said.replace("-", "")
        assert not any(UUID(other).hex in said.replace("-", "") for other in jobs if other != job)
    # and a job that may run code of users is the last of its process
    code = {"spark": {"spark.sql.sources.default": "parquet"}}
    job = server.submit(a_small_job("code", **code))
    server.until_state(job, "finished")
    pid = runner_of(server, job)["pid"]
    eventually(lambda: not psutil.pid_exists(pid), within=60)


@pytest.mark.long
@pytest.mark.parametrize("after", [0.0, 0.1, 0.3, 0.6, 1.0])
def test_a_process_that_is_killed_between_two_jobs_costs_no_job(
    server: ServerProcess, after: float
) -> None:
    write_rows(server)
    name = f"killed{int(after * 10)}"
    first = server.submit(a_small_job(f"{name}-1"))
    server.until_state(first, "finished")
    pid = runner_of(server, first)["pid"]

    second = server.submit(a_small_job(f"{name}-2"))
    time.sleep(after)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)

    server.until_state(second, "finished")
    assert totals(server, f"{name}-1") == totals(server, f"{name}-2") == [20, 25]
    launched = history(server, second, "runner_launched")
    assert len({one["attempt"] for one in launched}) == len(launched), "an attempt ran twice"


@pytest.mark.long
@pytest.mark.parametrize("after", [0.0, 0.2, 0.5])
def test_a_server_that_is_killed_between_two_jobs_costs_no_job(
    server: ServerProcess, after: float
) -> None:
    write_rows(server)
    name = f"server{int(after * 10)}"
    first = server.submit(a_small_job(f"{name}-1"))
    server.until_state(first, "finished")
    second = server.submit(a_small_job(f"{name}-2"))
    time.sleep(after)

    server.stop(signal.SIGKILL)
    server.start()

    server.until_state(second, "finished")
    assert totals(server, f"{name}-2") == [20, 25]


@pytest.mark.long
def test_those_that_wait_end_with_the_server_however_it_ends(server: ServerProcess) -> None:
    for number in (signal.SIGKILL, signal.SIGTERM):
        eventually(lambda: waiting(server) or None, within=280)
        server.stop(number)
        eventually(lambda: not server.runner_processes(), within=60)
        if number is signal.SIGKILL:
            server.start()
