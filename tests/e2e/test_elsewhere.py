"""Checkpoints and a savepoint in S3: what is on the machine may be lost."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from jobmanager.core.snapshots import layout
from jobmanager.core.snapshots import manifest as manifests
from tests.e2e.test_exactly_once import RATE, a_bounded_job
from tests.e2e.test_savepoints import take
from tests.support.databases import fresh_database
from tests.support.oracle import Bids, generator_started_at, read_windows, twice
from tests.support.s3 import BUCKET, S3, an_s3_server
from tests.support.server import ServerProcess, eventually

START = 240
"""Seconds that Spark may take where the machine is busy with other things."""


@pytest.fixture
def s3(directory: Path) -> Iterator[S3]:
    with pytest.MonkeyPatch.context() as patch, an_s3_server(directory / "s3") as s3:
        for name, value in s3.environment.items():
            patch.setenv(name, value)  # servers and their runners inherit it
        yield s3


@pytest.fixture
def servers(directory: Path, postgres_url: str, s3: S3) -> Iterator[list[ServerProcess]]:
    """Two servers that have nothing in common but S3 and the data."""
    data = ("--data-root", str(directory / "data"))
    with fresh_database(postgres_url) as one, fresh_database(postgres_url) as two:
        checkpoints = ("--checkpoints", f"s3://{BUCKET}/checkpoints")
        made = [
            ServerProcess(directory / "one", "--database-url", one, *checkpoints, *data),
            ServerProcess(directory / "two", "--database-url", two, *data),
        ]
        try:
            yield [server.start() for server in made]
        finally:
            for server in made:
                server.clean_up()


def a_job(rows: int | None = None) -> dict[str, Any]:
    """It ends after so many rows; None: never."""
    document = a_bounded_job("moved")
    document["vertices"][0]["rows"] = rows
    if rows is None:
        del document["vertices"][0]["rows"]
    document["checkpointing"] = {"interval": "1h", "retained": 2}
    document["restart"]["delay"] = "1s"
    return document


def only_what_is_named(s3: S3, job: str) -> bool:
    """Whether the store holds two checkpoints, all they name, and nothing else."""
    below = f"checkpoints/jobs/{job}"
    keys = s3.keys(below)
    written = set(filter(layout.is_checkpoint_manifest, keys))
    if len(written) != 2:
        return False
    texts = [s3.get(f"{below}/{key}").decode() for key in written]
    named = {file.location for text in texts for file in manifests.from_json(text).files()}
    assert named <= keys, "a checkpoint names what is not there"
    return keys == named | written


@pytest.mark.timeout(900)  # three Spark sessions: a minute where nothing else runs
@pytest.mark.long
def test_a_job_outlives_its_machine(servers: list[ServerProcess], s3: S3, directory: Path) -> None:
    here, there = servers
    output = directory / "data" / "moved"
    job = here.submit(a_job())
    storage = here.directory / "storage" / "jobs" / job

    # Retention keeps two checkpoints of three, and exactly the objects that they name.
    here.until_state(job, "running", within=START)
    for number in (1, 2, 3):
        eventually(lambda: read_windows(output), within=60)
        assert here.http.post(f"/v1/jobs/{job}/checkpoints").json()["number"] == number
        here.until_checkpoint(job, number)
    eventually(lambda: only_what_is_named(s3, job), within=30, explain=lambda: str(s3.keys("")))
    assert not (storage / "pool").exists()
    bids = Bids(RATE, generator_started_at(storage / "attempts/1/out"))

    # The runner dies, and all it had on the disk is lost: only S3 has the state.
    os.kill(here.status(job)["runner"]["pid"], signal.SIGKILL)
    shutil.move(storage, directory / "lost")
    eventually(lambda: here.status(job)["attempt"] == 2, within=30)
    status = here.until_state(job, "running", within=START)
    assert status["restored"][0]["origin"] == "checkpoint", status["restored"]

    # It is stopped with a savepoint in S3, which another server, with nothing of its own, checks…
    saved = take(here, job, "stop", targetDirectory=f"s3://{BUCKET}/savepoints")["result"]
    verify = f"/v1/savepoints/{saved['savepoint']}/verify"
    assert here.http.post(verify).json()["faults"] == []
    key = saved["path"].removeprefix(f"s3://{BUCKET}/")
    name = next(one for one in s3.keys(key) if one.endswith(".changelog"))
    content = s3.get(f"{key}/{name}")
    s3.put(f"{key}/{name}", content[::-1])
    assert [name in fault for fault in here.http.post(verify).json()["faults"]] == [True]
    seconds = here.get(f"/v1/savepoints/{saved['savepoint']}")["regions"]["out"]["offsets"]["bids"]
    rows = (seconds + 3) * RATE
    refused = submit(there, saved["path"], rows)
    assert refused.status_code == 422
    assert f"{name} was altered" in refused.json()["detail"]
    s3.put(f"{key}/{name}", content)

    # … and goes on from. Every row is there, once.
    answer = submit(there, saved["path"], rows)
    assert answer.status_code == 202, answer.text
    there.until_state(answer.json()["jobid"], "finished", within=START)
    written = read_windows(output)
    assert not twice(written)
    assert set(written) == bids.windows(rows, 2000)

    # Garbage is found in S3 as it is on a disk, and what is needed stays.
    orphan = f"checkpoints/jobs/{job}/pool/out/orphan"
    s3.put(orphan, b"of a checkpoint that never was")
    explained = here.http.post("/v1/gc", params={"dry_run": True}).json()
    assert f"s3://{BUCKET}/{orphan}" in [one["path"] for one in explained["items"]]
    assert not only_what_is_named(s3, job)
    here.http.post("/v1/gc").raise_for_status()
    assert only_what_is_named(s3, job)
    assert s3.keys(key)

    assert here.http.delete(f"/v1/savepoints/{saved['savepoint']}").status_code == 202
    eventually(lambda: not s3.keys(key), within=30)


def submit(server: ServerProcess, savepoint: str, rows: int) -> httpx.Response:
    return server.http.post("/v1/jobs", params={"savepoint": savepoint}, json=a_job(rows))


def test_a_place_that_nobody_can_reach_is_refused_when_the_server_starts(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "jobmanager", "serve", "--data-dir", str(tmp_path)]
    ended = subprocess.run(
        [*command, "--checkpoints", "nowhere://bucket/x"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ended.returncode == 1
    assert ended.stderr == (
        "headgate: the settings are not valid: --checkpoints: 'nowhere://bucket/x' cannot be used: "
        "fsspec knows no nowhere: storage\n"
    )
