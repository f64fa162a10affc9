"""Flink's own command line, from PyPI's `apache-flink-libraries`, works on our server.

`make flink-client` installs it; runners are played, so no Spark is needed.
"""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.builders import a_document
from tests.support.cluster import EVERYONE, Cluster
from tests.support.served_cluster import ServedCluster, a_served_cluster

pytestmark = pytest.mark.long
LIBRARIES = Path(__file__).parents[3] / ".venv/flink-client/pyflink/lib"
_WITHIN = 300


@pytest.fixture(scope="module")
def served(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedCluster]:
    if not LIBRARIES.exists():
        pytest.skip("Flink's command line is not installed: make flink-client")
    with a_served_cluster(database_url, tmp_path_factory.mktemp("cli")) as made:
        yield made


def flink(served: ServedCluster, directory: Path, *arguments: str) -> str:
    """Run the command line against the server; return what it printed."""
    place = served.url.removeprefix("http://")
    host, _, port = place.partition(":")
    (directory / "config.yaml").write_text(f"rest:\n  address: {host}\n  port: {port}\n")
    command, *rest = arguments
    java = ["java", "-cp", f"{LIBRARIES}/*", "org.apache.flink.client.cli.CliFrontend"]
    done = subprocess.run(
        [*java, command, "-m", place, *rest],
        env={**os.environ, "FLINK_CONF_DIR": str(directory)},
        capture_output=True,
        text=True,
        timeout=_WITHIN,
        check=False,
    )
    return done.stdout + done.stderr


async def _running(cluster: Cluster) -> str:
    job, _ = await cluster.running(a_document(name="orders of today"))
    return job


async def _acked_savepoint(cluster: Cluster, job: str) -> None:
    """Ack the savepoint that a client asks for, when it has."""
    runner = await cluster.noted_runner(job)
    for _ in range(_WITHIN * 5):
        found = (await cluster.get(f"/v1/jobs/{job}/checkpoints"))["counts"]
        if found["in_progress"]:
            body = {**runner.acks(found["total"], *EVERYONE), "manifest": "manifest.json"}
            assert (await runner.post("acks", body)).json()["outcome"] == "completed"
            return
        await asyncio.sleep(0.2)
    raise AssertionError("no savepoint was asked for")


def test_flinks_command_line_lists_and_cancels(served: ServedCluster, tmp_path: Path) -> None:
    job = served.run(_running)

    listed = flink(served, tmp_path, "list")
    cancelled = flink(served, tmp_path, "cancel", job)
    state = served.run(lambda cluster: cluster.state(job))

    assert f"{job} : orders of today (RUNNING)" in listed, listed
    assert f"Cancelled job {job}." in cancelled, cancelled
    assert state == "CANCELLING"


def test_flinks_command_line_shows_why_a_savepoint_failed(
    served: ServedCluster, tmp_path: Path
) -> None:
    job = served.run(_running)

    async def decline(cluster: Cluster) -> None:
        runner = await cluster.noted_runner(job)
        for _ in range(_WITHIN * 5):
            found = (await cluster.get(f"/v1/jobs/{job}/checkpoints"))["counts"]
            if found["in_progress"]:
                await runner.decline(found["total"])
                return
            await asyncio.sleep(0.2)

    declining = asyncio.run_coroutine_threadsafe(decline(served.cluster), served._loop)
    told = flink(served, tmp_path, "savepoint", job)
    declining.result(_WITHIN)

    assert "no space left" in told, told


def test_flinks_command_line_takes_a_savepoint(served: ServedCluster, tmp_path: Path) -> None:
    job = served.run(_running)
    acking = asyncio.run_coroutine_threadsafe(_acked_savepoint(served.cluster, job), served._loop)

    told = flink(served, tmp_path, "savepoint", job)
    acking.result(_WITHIN)

    assert "Savepoint completed. Path: file:" in told, told
