"""Savepoint, fork, stop and restore with real processes: every record exactly once."""

import contextlib
import os
import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest

from tests.e2e.test_exactly_once import RATE, ROWS, a_bounded_job
from tests.support.oracle import Bids, generator_started_at, read_windows, twice
from tests.support.server import ServerProcess, eventually


def take(server: ServerProcess, job: str, what: str, **body: Any) -> dict[str, Any]:
    """Asks for a savepoint or a stop and waits for it; the operation."""
    answer = server.http.post(f"/v1/jobs/{job}/{what}", json=body)
    assert answer.status_code == 202, answer.text
    operation = f"/v1/operations/{answer.json()['request-id']}"
    eventually(lambda: server.get(operation)["status"] != "in_progress", within=60)
    ended: dict[str, Any] = server.get(operation)
    assert ended["status"] == "completed", (ended["error"], server.status(job)["reason"])
    return ended


def files_up_to(directory: Path, batch: int) -> dict[Path, bytes]:
    """The output of a job's batches up to this one."""
    return {
        path: path.read_bytes()
        for path in directory.glob("*.parquet")
        if int(path.name.split("-")[2]) <= batch
    }


# The tour stops with a savepoint, tests/integration/spark forks and restores.
@pytest.mark.long
def test_savepoint_fork_stop_and_restore(server: ServerProcess) -> None:
    data = server.directory / "data"
    storage = server.directory / "storage"
    job = server.submit(a_bounded_job("first"))
    server.until_checkpoint(job, 2)
    eventually(lambda: read_windows(data / "first"), within=60)
    started_at = generator_started_at(storage / "jobs" / job / "attempts" / "1" / "out")
    expected = Bids(RATE, started_at).windows(ROWS, 2000)

    # Back to a checkpoint of the running job, in a job of its own.
    past = server.status(job)["last_checkpoint"]["number"]
    past_batch = server.get(f"/v1/jobs/{job}/checkpoints/{past}")["batch"]["out"]
    travel = server.http.post(
        "/v1/jobs", params={"checkpoint": f"{job}:{past}"}, json=a_bounded_job("travel")
    ).json()["jobid"]

    # A savepoint of the running job, and a fork of it that goes its own way.
    saved = take(server, job, "savepoints")["result"]
    batch = server.get(f"/v1/savepoints/{saved['savepoint']}")["regions"]["out"]["batch"]
    same_sink = server.http.post(
        "/v1/jobs", params={"savepoint": saved["savepoint"]}, json=a_bounded_job("first")
    )
    assert same_sink.status_code == 409
    assert "give this one another path" in same_sink.json()["detail"]
    fork = server.http.post(
        "/v1/jobs", params={"savepoint": saved["savepoint"]}, json=a_bounded_job("fork")
    ).json()["jobid"]

    # The first job is stopped with a savepoint, and another one goes on from there.
    stopped = take(server, job, "stop")
    assert [phase["name"] for phase in stopped["phases"]] == ["savepoint", "stop"]
    assert server.status(job)["state"] == "finished"
    before_fork = files_up_to(data / "first", batch)
    before_travel = files_up_to(data / "first", past_batch)
    restored = server.http.post(
        "/v1/jobs", params={"savepoint": stopped["result"]["path"]}, json=a_bounded_job("first")
    ).json()["jobid"]
    second = server.http.post(
        "/v1/jobs", params={"savepoint": stopped["result"]["path"]}, json=a_bounded_job("./first/")
    )
    assert second.status_code == 409
    assert restored in second.json()["detail"]
    status = server.until_state(restored, "running", "finished")
    assert status["restored"][0]["origin"] == "savepoint"
    server.until_state(restored, "finished")
    server.until_state(fork, "finished")
    server.until_state(travel, "finished")
    eventually(lambda: not server.runner_processes(), within=30)

    written = read_windows(data / "first")
    assert not twice(written)
    assert set(written) == expected
    # What a fork wrote and what was written before it are the whole as well.
    for name, before in (("fork", before_fork), ("travel", before_travel)):
        for path, content in before.items():
            (data / name / path.name).write_bytes(content)
        both = read_windows(data / name)
        assert not twice(both), name
        assert set(both) == expected, name

    # A savepoint that was moved works by its path; a damaged one is refused by its file's name.
    moved = data / "moved"
    shutil.copytree(Path(urlparse(saved["path"]).path), moved)
    damaged = next(path for path in moved.rglob("*.changelog"))
    damaged.write_bytes(b"altered" + damaged.read_bytes()[7:])
    refused = server.http.post(
        "/v1/jobs", params={"savepoint": str(moved)}, json=a_bounded_job("never")
    )
    assert refused.status_code == 422
    assert damaged.name in refused.json()["detail"]
    verified = server.http.post(f"/v1/savepoints/{saved['savepoint']}/verify").json()
    assert verified["faults"] == []
    assert server.http.delete(f"/v1/savepoints/{saved['savepoint']}").status_code == 202
    eventually(lambda: not Path(urlparse(saved["path"]).path).exists(), within=30)


SHORTER = 3000


def a_shorter_job(path: str) -> dict[str, Any]:
    document = a_bounded_job(path)
    document["vertices"][0]["rows"] = SHORTER
    return document


def legal_end(server: ServerProcess, operation: str) -> dict[str, Any]:
    path = f"/v1/operations/{operation}"
    eventually(lambda: server.get(path)["status"] in ("completed", "failed"), within=60)
    ended: dict[str, Any] = server.get(path)
    return ended


@pytest.mark.long
@pytest.mark.parametrize("victim", ["runner", "server"])
def test_a_stop_that_meets_a_kill_ends_in_one_of_two_ways(
    server: ServerProcess, victim: str
) -> None:
    chance = random.Random(int(os.environ.get("HEADGATE_TEST_SEED", time.time_ns())))
    output = f"stop-{victim}"
    job = server.submit(a_shorter_job(output))
    server.until_checkpoint(job, 1)
    spark_dir = server.directory / "storage" / "jobs" / job / "attempts" / "1" / "out"
    expected = Bids(RATE, generator_started_at(spark_dir)).windows(SHORTER, 2000)
    pid = server.status(job)["runner"]["pid"]

    operation = server.http.post(f"/v1/jobs/{job}/stop", json={}).json()["request-id"]
    time.sleep(chance.uniform(0, 0.6))
    if victim == "runner":
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    else:
        server.stop(signal.SIGKILL)
        server.start()

    ended = legal_end(server, operation)
    if ended["status"] == "completed":  # stopped: the next job goes on from the savepoint
        server.until_state(job, "finished")
        answer = server.http.post(
            "/v1/jobs",
            params={"savepoint": ended["result"]["path"]},
            json=a_shorter_job(output),
        )
        assert answer.status_code == 202, answer.text
        job = answer.json()["jobid"]
    server.until_state(job, "finished")  # or it was never stopped, and goes on by itself

    written = read_windows(server.directory / "data" / output)
    assert not twice(written)
    assert set(written) == expected
