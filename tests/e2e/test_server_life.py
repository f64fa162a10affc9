"""The server goes and comes back: its jobs run on, and are found again."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tests.support.databases import fresh_database
from tests.support.server import ServerProcess, eventually, processes_of

JOB = {
    "name": "runs on",
    "checkpointing": {"interval": "1s"},
    "vertices": [
        {
            "id": "rows",
            "op": "source",
            "connector": "generator",
            "rows_per_second": 10,
            "columns": {"k": "id % 3"},
        },
        {
            "id": "counts",
            "op": "aggregate",
            "inputs": ["rows"],
            "key": ["k"],
            "aggregate": {"n": "count(*)"},
        },
        {"id": "out", "op": "sink", "inputs": ["counts"], "connector": "blackhole"},
    ],
}


@pytest.fixture
def database_of_its_own(postgres_url: str) -> Iterator[str]:
    with fresh_database(postgres_url) as url:
        yield url


@pytest.fixture
def restarting(directory: Path, database_of_its_own: str) -> Iterator[ServerProcess]:
    made = ServerProcess(
        directory / "life",
        "--database-url",
        database_of_its_own,
        environment=with_temporary_directory(directory / "machine"),
    )
    try:
        yield made
    finally:
        made.clean_up()


def with_temporary_directory(directory: Path) -> dict[str, str]:
    """Of the machine, as its processes see it: a directory that no other test writes to."""
    directory.mkdir()
    java = f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} -Djava.io.tmpdir={directory}"
    return {"TMPDIR": str(directory), "JAVA_TOOL_OPTIONS": java}


def left_over(server: ServerProcess, pids: list[int]) -> list[Path]:
    """Temporary files of processes that are gone."""
    statistics = [Path("/tmp").glob(f"hsperfdata_*/{pid}") for pid in pids]
    found = [*(server.directory / "tmp").glob("*"), *Path(server.environment["TMPDIR"]).glob("*")]
    return [*found, *chain.from_iterable(statistics)]


def last_commit(server: ServerProcess, job: str) -> int:
    commits = server.directory / "storage" / "jobs" / job / "attempts" / "1" / "out" / "commits"
    return max((int(path.name) for path in commits.glob("[0-9]*")), default=-1)


def runs_past(server: ServerProcess, job: str, batch: int) -> bool:
    return last_commit(server, job) > batch


@pytest.mark.long  # test_failover kills a server, too
def test_jobs_outlive_their_server_and_are_adopted_by_the_next(restarting: ServerProcess) -> None:
    server = restarting.start()
    job = server.submit(JOB)
    server.until_checkpoint(job, 1)
    before = server.status(job)

    for ending in (signal.SIGTERM, signal.SIGKILL):
        code = server.stop(ending)
        assert code == (0 if ending is signal.SIGTERM else -signal.SIGKILL)
        committed = last_commit(server, job)
        eventually(partial(runs_past, server, job, committed), within=30)
        server.start()
        status = server.status(job)
        assert (status["state"], status["attempt"]) == ("running", 1)
        assert status["runner"]["pid"] == before["runner"]["pid"]
        server.until_checkpoint(job, status["last_checkpoint"]["number"] + 1)

    # The adopted runner's end is seen as well, and the job is started again.
    pids = processes_of(before["runner"]["id"])
    [temporary] = (server.directory / "tmp").glob("*")
    assert any(temporary.rglob("librocksdbjni*"))
    os.kill(before["runner"]["pid"], signal.SIGKILL)
    eventually(lambda: server.status(job)["attempt"] == 2, within=30)
    server.until_state(job, "running")
    pids += processes_of(server.status(job)["runner"]["id"])
    eventually(lambda: not temporary.exists(), within=30)

    # A server that is told to stops its jobs, and leaves no process behind.
    server.stop()
    server.start("--stop-jobs")
    server.until_state(job, "running")
    assert server.stop() == 0
    eventually(lambda: not server.runner_processes(), within=10)
    assert left_over(server, pids) == []


@pytest.mark.long
def test_a_runner_that_ended_while_no_server_was_there_is_noticed(
    restarting: ServerProcess,
) -> None:
    server = restarting.start()
    job = server.submit(JOB)
    pid = server.until_state(job, "running")["runner"]["pid"]
    server.stop()
    os.kill(pid, signal.SIGKILL)

    server.start()
    eventually(lambda: server.status(job)["attempt"] == 2, within=30)

    server.http.patch(f"/v1/jobs/{job}")
    server.until_state(job, "cancelled")
    eventually(lambda: not server.runner_processes(), within=30)


def refused(*options: str) -> str:
    """What a server that does not start says, in one line."""
    command = [sys.executable, "-m", "jobmanager", "serve", "--port", "0", *options]
    ended: subprocess.CompletedProcess[str] = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode != 0
    lines = ended.stderr.strip().splitlines()
    assert len(lines) == 1, ended.stderr
    return lines[0]


def test_what_keeps_a_server_from_starting_is_said_in_one_line(
    restarting: ServerProcess, tmp_path: Path
) -> None:
    server: Any = restarting.start()
    port = server.url.rstrip("/").rpartition(":")[2]

    same_data = refused("--data-dir", str(server.directory))
    same_port = refused("--data-dir", str(tmp_path), "--port", port)
    bad_storage = refused("--data-dir", str(tmp_path), "--storage", "s3a://bucket/x")
    with_space = refused("--data-dir", str(tmp_path / "my data"))

    assert f"another Headgate server runs on {server.directory}" in same_data
    assert "Address already in use" in same_port
    assert "need a file: URI" in bad_storage
    assert "has ' ' in its name" in with_space
