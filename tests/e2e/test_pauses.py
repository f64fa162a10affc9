"""A job is paused and resumed with real processes: every record once, and figures that are true."""

import os
import signal
from typing import Any

import pytest

from tests.e2e.test_changes import a_job, check_output, started_at
from tests.support.server import ServerProcess, eventually


def ask(server: ServerProcess, job: str, what: str) -> None:
    answer = server.http.post(f"/v1/jobs/{job}/{what}")
    assert answer.status_code == 202, answer.text


def runner_of(server: ServerProcess, job: str) -> dict[str, Any]:
    runner: dict[str, Any] = server.status(job)["runner"]
    return runner


def living(server: ServerProcess) -> list[int]:
    """The processes of the runners that have not exited, as the server says."""
    return [one["pid"] for one in server.get("/v1/runners?alive=true")["items"]]


@pytest.mark.long
def test_a_paused_job_goes_on_where_it_was_with_its_runner_and_without(
    server: ServerProcess,
) -> None:
    job = server.submit(a_job("paused"))
    server.until_checkpoint(job, 2)
    began = started_at(server, job, 1)
    first = runner_of(server, job)

    # its runner waits
    ask(server, job, "pause")
    server.until_state(job, "paused")
    ask(server, job, "resume")
    server.until_state(job, "running")
    assert runner_of(server, job)["pid"] == first["pid"]

    # its runner is killed while it waits
    server.until_checkpoint(job, 4)
    ask(server, job, "pause")
    server.until_state(job, "paused")
    os.kill(first["pid"], signal.SIGKILL)
    eventually(lambda: first["pid"] not in living(server), within=30)
    assert server.status(job)["state"] == "paused"
    ask(server, job, "resume")
    server.until_state(job, "running")
    assert runner_of(server, job)["pid"] != first["pid"]

    check_output(server, job, began)


@pytest.mark.long
def test_figures_by_subtask_are_on_flinks_routes(server: ServerProcess) -> None:
    job = server.submit(a_job("measured"))
    server.until_state(job, "running")

    def vertices() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = server.get(f"/v1/jobs/{job}")["vertices"]
        return found

    def windows() -> dict[str, Any]:
        found: dict[str, Any] = server.get(f"/v1/jobs/{job}/vertices/{vertices()[1]['id']}")
        return found

    eventually(
        lambda: all(one["metrics"]["read-records"] > 0 for one in windows()["subtasks"]),
        within=120,
        explain=lambda: str(windows()),
    )

    for one in windows()["subtasks"]:
        assert one["metrics"]["read-records-complete"]
        assert one["metrics"]["read-bytes"] > 0
        assert one["metrics"]["accumulated-busy-time"] > 0
    path = f"/v1/jobs/{job}/vertices/{vertices()[1]['id']}"
    pressure = server.get(f"{path}/backpressure")
    assert pressure["status"] == "ok"
    for one in pressure["subtasks"]:
        assert abs(one["ratio"] + one["busyRatio"] + one["idleRatio"] - 1) < 0.01
    [busy] = server.get(f"{path}/subtasks/metrics?get=busyTimeMsPerSecond&agg=max")
    assert 0 < busy["max"] <= 1000
    runner = runner_of(server, job)["id"].replace("-", "")
    threads = server.get(f"/v1/taskmanagers/{runner}/thread-dump")["threadInfos"]
    names = [one["threadName"] for one in threads]
    assert "python: MainThread" in names
    assert any(name.startswith("jvm: stream execution thread") for name in names)
    server.http.patch(f"/v1/jobs/{job}?mode=cancel")
