"""Several jobs in one process: each is on its own, whatever happens to the others."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import pytest

from tests.e2e.test_exactly_once import a_bounded_job
from tests.support.oracle import Bids, generator_started_at, read_windows, twice
from tests.support.renewed import Renewed, renewed
from tests.support.server import PATIENCE, ServerProcess, a_server, eventually, processes_of

RATE = 20
ROWS = 40 * RATE
OPTIONS = ("--warm-runners", "0", "--shared-jobs", "8", "--shared-memory", "1g")


@pytest.fixture(scope="module")
def servers_in_turn(postgres_url: str) -> Iterator[Renewed[ServerProcess]]:
    @contextmanager
    def make() -> Iterator[ServerProcess]:
        with a_server(postgres_url, *OPTIONS) as made:
            yield made

    with renewed(make, lambda server: server.is_running) as shared:
        yield shared


def a_shared_job(name: str, **execution: Any) -> dict[str, Any]:
    document = a_bounded_job(name)
    document["name"] = name
    document["execution"] = {"runner": "shared", "batch_interval": "1s", **execution}
    document["vertices"][0] |= {"rows_per_second": RATE, "rows": ROWS}
    return document


def a_job_that_fails(name: str) -> dict[str, Any]:
    """It meets a row that it cannot divide by, some seconds after its start."""
    document = a_shared_job(name)
    document["restart"] = {"strategy": "none"}
    document["vertices"][1]["where"] = f"100 / (ts_number - {5 * RATE}) IS NOT NULL"
    document["vertices"][0]["columns"]["ts_number"] = "id"
    return document


def started_at(server: ServerProcess, job: str) -> int:
    """Of the rows of the first attempt, which is what later attempts go on from: its first
    checkpoint is complete.
    """
    server.until_checkpoint(job, 1)
    attempts = server.directory / "storage" / "jobs" / job / "attempts"
    return generator_started_at(attempts / "1" / "out")


def pids(server: ServerProcess, jobs: list[str]) -> set[int]:
    return {server.status(job)["runner"]["pid"] for job in jobs}


def process_of(server: ServerProcess, job: str) -> str:
    runner = server.status(job)["runner"]
    assert runner["is_shared"], runner
    return str(runner["process"])


def assert_whole(server: ServerProcess, name: str, since: int) -> None:
    written = read_windows(server.directory / "data" / name)
    assert not twice(written), name
    assert set(written) == Bids(RATE, since).windows(ROWS, 2000), name


def test_jobs_of_one_process_leave_each_other_alone_and_all_survive_its_death(
    server: ServerProcess,
) -> None:
    steady, rescaled = server.submit(a_shared_job("steady")), server.submit(a_shared_job("scaled"))
    failing = server.submit(a_job_that_fails("failing"))
    cancelled = server.submit(a_shared_job("cancelled"))
    jobs = [steady, rescaled, failing, cancelled]
    for job in jobs:
        server.until_state(job, "running", "failed")
    began = {
        name: started_at(server, job) for name, job in (("steady", steady), ("scaled", rescaled))
    }
    [first] = pids(server, jobs)

    answer = server.http.patch(f"/v1/jobs/{rescaled}/rescaling", params={"parallelism": 1})
    assert answer.status_code == 202, answer.text
    server.http.patch(f"/v1/jobs/{cancelled}")
    eventually(lambda: server.status(cancelled)["state"] == "cancelled", within=60)
    failed = eventually(lambda: failed_job(server, failing), within=60)
    assert "DIVIDE_BY_ZERO" in failed["reason"]
    eventually(lambda: server.status(rescaled)["attempt"] == 2, within=60)
    server.until_state(rescaled, "running", "finished")

    # whoever is left was not disturbed, and the rescaled job has kept its runner
    assert server.status(steady)["attempt"] == 1
    assert pids(server, [steady, rescaled]) == {first}
    for gone in (failing, cancelled):
        assert "its shared process goes on" in exit_of(server, gone)

    os.kill(first, signal.SIGKILL)
    eventually(lambda: server.status(steady)["attempt"] == 2, within=60)
    for job in (steady, rescaled):
        server.until_state(job, "finished", within=240)

    assert_whole(server, "steady", began["steady"])
    assert_whole(server, "scaled", began["scaled"])
    assert first not in pids(server, [steady, rescaled])


def exit_of(server: ServerProcess, job: str) -> str:
    def found() -> str:
        items = server.get("/v1/runners")["items"]
        return next(one["exit"] for one in items if one["job"] == job) or ""

    return eventually(lambda: found() or None, within=60)


def failed_job(server: ServerProcess, job: str) -> dict[str, Any] | None:
    status = server.status(job)
    return status if status["state"] == "failed" else None


@pytest.mark.long
def test_a_job_moves_to_a_runner_of_its_own_and_its_neighbours_stay(
    server: ServerProcess,
) -> None:
    moving, staying = server.submit(a_shared_job("moving")), server.submit(a_shared_job("staying"))
    began = {}
    for name, job in (("moving", moving), ("staying", staying)):
        server.until_state(job, "running")
        began[name] = started_at(server, job)
    [shared] = pids(server, [moving, staying])

    alone = a_shared_job("moving", runner="own")
    answer = server.http.post(f"/v1/jobs/{moving}/upgrade", json=alone, timeout=PATIENCE)
    assert answer.status_code == 202, answer.text
    eventually(lambda: server.status(moving)["attempt"] == 2, within=60)
    status = server.until_state(moving, "running", "finished")

    assert not status["runner"]["is_shared"]
    assert status["runner"]["pid"] != shared
    assert server.status(staying)["attempt"] == 1
    for job in (moving, staying):
        server.until_state(job, "finished", within=240)
    for name in ("moving", "staying"):
        assert_whole(server, name, began[name])


@pytest.mark.long
def test_the_next_server_takes_over_the_runners_of_a_shared_process(
    server: ServerProcess,
) -> None:
    kept, ended = server.submit(a_shared_job("kept")), server.submit(a_shared_job("ended"))
    server.until_state(kept, "running")
    server.until_state(ended, "running")
    began = started_at(server, kept)
    process = process_of(server, kept)
    assert process_of(server, ended) == process

    server.stop(signal.SIGKILL)
    time.sleep(1)
    server.start()

    server.http.patch(f"/v1/jobs/{ended}")
    eventually(lambda: server.status(ended)["state"] == "cancelled", within=60)
    assert "its shared process goes on" in exit_of(server, ended)
    later = server.submit(a_shared_job("later"))
    server.until_state(later, "running")
    assert process_of(server, later) != process, "its channel went with the first server"
    server.until_state(kept, "finished", within=240)
    assert server.status(kept)["attempt"] == 1
    assert_whole(server, "kept", began)
    eventually(lambda: not processes_of(process), within=60)  # nobody can give it a runner


@pytest.mark.long
def test_a_runner_that_was_killed_leaves_the_others(server: ServerProcess) -> None:
    """A server that has no channel, and a runner that is told to end by a file."""
    job, other = server.submit(a_shared_job("told")), server.submit(a_shared_job("untold"))
    for one in (job, other):
        server.until_state(one, "running")
    began = started_at(server, job), started_at(server, other)
    runner, process = server.status(job)["runner"]["id"], process_of(server, job)

    (server.directory / "runners" / runner / f"end-{process}").touch()

    eventually(lambda: server.status(job)["attempt"] == 2, within=60)
    assert server.status(other)["attempt"] == 1
    for one in (job, other):
        server.until_state(one, "finished", within=240)
    assert_whole(server, "told", began[0])
    assert_whole(server, "untold", began[1])


@pytest.mark.long
def test_a_shared_process_whose_jvm_is_gone_ends_and_its_jobs_go_on(server: ServerProcess) -> None:
    jobs = {name: server.submit(a_shared_job(name)) for name in ("jvm", "less")}
    for job in jobs.values():
        server.until_state(job, "running")
    began = {name: started_at(server, job) for name, job in jobs.items()}
    process = process_of(server, jobs["jvm"])
    [jvm] = [pid for pid in processes_of(process) if psutil.Process(pid).name() == "java"]

    os.kill(jvm, signal.SIGKILL)

    for job in jobs.values():
        server.until_state(job, "finished", within=240)
        assert server.status(job)["attempt"] >= 2
    for name in jobs:
        assert_whole(server, name, began[name])
    assert not processes_of(process)
    told = (server.directory / "runners" / process / "ended").read_text()
    assert "Spark has ended" in told
