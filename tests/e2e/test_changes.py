"""Rescale and upgrade with real processes, under input and under kill -9: every record once."""

import contextlib
import os
import random
import signal
import time
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psutil
import pytest

from tests.e2e.test_exactly_once import RATE, a_bounded_job
from tests.e2e.test_savepoints import take
from tests.support.oracle import Bids, generator_started_at, read_windows, twice
from tests.support.server import ServerProcess, eventually

PATIENCE = 180
"""Seconds: the first question about state starts a Spark session."""
PHASES = ("savepoint", "stop", "repartition", "start", "first_batch")


def a_job(path: str, *, smallest: int = 100, parallelism: int = 2) -> dict[str, Any]:
    """The job of the exactly-once tests, without an end."""
    document = a_bounded_job(path)
    del document["vertices"][0]["rows"]
    document["vertices"][1]["where"] = f"price > {smallest}"
    return {**document, "name": path, "parallelism": parallelism, "max_parallelism": 12}


def begin_rescale(server: ServerProcess, job: str, parallelism: int) -> str:
    params = {"parallelism": parallelism}
    answer = server.http.patch(f"/v1/jobs/{job}/rescaling", params=params)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["request-id"])


def ended(server: ServerProcess, operation: str) -> dict[str, Any]:
    path = f"/v1/operations/{operation}"
    eventually(
        lambda: server.get(path)["status"] != "in_progress",
        within=120,
        explain=lambda: f"{server.get(path)}\n{server.log.read_text()[-3000:]}",
    )
    found: dict[str, Any] = server.get(path)
    return found


def started_at(server: ServerProcess, job: str, attempt: int) -> int:
    attempts = server.directory / "storage" / "jobs" / job / "attempts"
    return generator_started_at(attempts / str(attempt) / "out")


def check_output(server: ServerProcess, job: str, began_ms: int) -> None:
    """Stops the job with all its windows emitted, and compares them with plain arithmetic."""
    stopped = take(server, job, "stop", drain=True)
    savepoint = server.get(f"/v1/savepoints/{stopped['result']['savepoint']}")
    seconds = savepoint["regions"]["out"]["offsets"]["bids"]
    written = read_windows(server.directory / "data" / server.get(f"/v1/jobs/{job}")["name"])
    assert not twice(written)
    assert set(written) == Bids(RATE, began_ms).windows(int(seconds) * RATE, 2000)


def jvms(pid: int) -> list[int]:
    return [one.pid for one in psutil.Process(pid).children(recursive=True) if one.name() == "java"]


def has_gone_on(server: ServerProcess, job: str) -> bool:
    """Whether the attempt has told of more than one batch; a new attempt has told of nothing."""
    return any(region["batches"] > 1 for region in server.status(job)["region_states"])


def test_rescale_and_upgrade_in_one_jvm(server: ServerProcess) -> None:
    job = server.submit(a_job("scaled"))
    server.until_checkpoint(job, 1)
    began = started_at(server, job, 1)
    pid = server.status(job)["runner"]["pid"]
    warm = jvms(pid)

    for parallelism in (4, 1):
        done = ended(server, begin_rescale(server, job, parallelism))
        assert done["status"] == "completed", done["error"]
        assert [phase["name"] for phase in done["phases"]] == list(PHASES)
        groups = server.get(f"/v1/jobs/{job}/key-groups")
        assert groups["parallelism"] == parallelism
        assert len(groups["vertices"][0]["subtasks"]) == parallelism
        eventually(lambda: has_gone_on(server, job), within=60)
    wrong = server.http.patch(f"/v1/jobs/{job}/rescaling", params={"parallelism": 5})
    assert "use one of 1, 2, 3, 4, 6, 12" in wrong.json()["errors"][0]

    # The same result from another graph: what it writes down is a new revision.
    path = f"/v1/jobs/{job}/upgrade"
    same = a_job("scaled", parallelism=2)
    same["vertices"][1]["where"] = "price >= 101"
    plan = server.http.post(path, json=same, params={"dry_run": True}, timeout=PATIENCE).json()
    assert plan["verdict"] == "compatible", plan
    accepted = server.http.post(path, json=same, timeout=PATIENCE)
    assert accepted.status_code == 202, accepted.text
    upgraded = ended(server, accepted.json()["operation"])
    assert upgraded["status"] == "completed", upgraded["error"]
    assert server.get(f"/v1/jobs/{job}/graph")["revision"] == 2

    assert server.status(job)["runner"]["pid"] == pid
    assert jvms(pid) == warm
    check_output(server, job, began)
    eventually(lambda: not server.runner_processes(), within=30)


@pytest.mark.long
def test_an_upgrade_that_does_not_come_up_is_taken_back(server: ServerProcess) -> None:
    job = server.submit(a_job("broken"))
    server.until_checkpoint(job, 1)
    began = started_at(server, job, 1)
    broken = a_job("broken")
    broken["vertices"][1]["where"] = "raise_error('not this way') > 100"

    accepted = server.http.post(f"/v1/jobs/{job}/upgrade", json=broken, timeout=PATIENCE)
    if accepted.status_code == 202:
        done = ended(server, accepted.json()["operation"])
        assert done["status"] == "rolled_back"
        server.until_state(job, "running")
    assert server.get(f"/v1/jobs/{job}/graph")["revision"] == 1
    check_output(server, job, began)


@pytest.mark.long
def test_a_rescale_that_meets_a_kill_in_any_phase(server: ServerProcess) -> None:
    seed = int(os.environ.get("HEADGATE_TEST_SEED", time.time_ns()))
    chance = random.Random(seed)
    job = server.submit(a_job("killed_in_phases"))
    server.until_checkpoint(job, 1)
    began = started_at(server, job, 1)
    kills = [(phase, victim) for phase in PHASES for victim in ("runner", "server")]

    for phase, victim in kills:
        server.until_state(job, "running")
        before = server.get(f"/v1/jobs/{job}/graph")["parallelism"]
        wanted = chance.choice([one for one in (1, 2, 3, 4) if one != before])
        operation = begin_rescale(server, job, wanted)
        kill_in(server, job, operation, phase, victim)

        done = ended(server, operation)
        told = f"seed {seed}, {victim} killed in {phase}: {done}"
        legal = {"completed": wanted, "failed": before, "rolled_back": before}
        assert server.get(f"/v1/jobs/{job}/graph")["parallelism"] == legal[done["status"]], told
        seen = read_windows(server.directory / "data" / "killed_in_phases")
        assert not twice(seen), told

    server.until_state(job, "running")
    check_output(server, job, began)


def kill_in(server: ServerProcess, job: str, operation: str, phase: str, victim: str) -> None:
    """Kills one of the two when the operation is in that phase, or past it already."""

    def is_there() -> bool:
        found = server.get(f"/v1/operations/{operation}")
        names = [one["name"] for one in found["phases"]]
        return phase in names or found["status"] != "in_progress"

    runner = server.status(job)["runner"]
    deadline = time.monotonic() + 60
    while not is_there() and time.monotonic() < deadline:
        time.sleep(0.005)
    if victim == "server":
        server.stop(signal.SIGKILL)
        server.start()
    elif runner is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(runner["pid"], signal.SIGKILL)


class Watch(Thread):
    """Looks all the time at the files that a plain reader of a sink finds, and notes any that go.
    A file is complete when it appears, and never changes.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__(daemon=True)
        self.seen: set[str] = set()
        self.lost: set[str] = set()
        self._directory = directory
        self._is_over = Event()

    def run(self) -> None:
        while not self._is_over.wait(0.002):
            now = {one.name for one in self._directory.glob("*.parquet")}
            self.lost |= self.seen - now
            self.seen |= now

    def end(self) -> None:
        self._is_over.set()
        self.join()


@pytest.mark.long
def test_rows_stay_visible_when_the_input_ends_in_a_rescale_and_the_runner_is_killed(
    server: ServerProcess,
) -> None:
    # Given a job whose rows wait for their checkpoints, shortly before the end of its input
    seconds = 30
    document = {**a_bounded_job("ended"), "name": "ended", "max_parallelism": 12}
    document["vertices"][0]["rows"] = seconds * RATE
    document["vertices"][-1]["visibility"] = "checkpoint"
    job = server.submit(document)
    server.until_checkpoint(job, 1)
    began = started_at(server, job, 1)
    runner = server.status(job)["runner"]
    log = server.directory / "runners" / runner["id"] / "runner.log"
    sink = server.directory / "data" / "ended"
    watch = Watch(sink)
    watch.start()
    time.sleep(max(0.0, began / 1000 + seconds - 2.5 - time.time()))

    # When it is rescaled, and its runner dies at the end of the input, or with its first new row
    operation = begin_rescale(server, job, 4)
    eventually(lambda: server.status(job)["attempt"] == 2, within=60)
    before = set(watch.seen)
    eventually(lambda: "input_ended" in log.read_text() or watch.seen > before, within=120)
    os.kill(runner["pid"], signal.SIGKILL)
    done = ended(server, operation)
    server.until_state(job, "finished", within=180)
    watch.end()

    # Then no row that was visible went, and each is there once
    assert not watch.lost, done
    written = read_windows(sink)
    assert not twice(written)
    assert set(written) == Bids(RATE, began).windows(seconds * RATE, 2000)
