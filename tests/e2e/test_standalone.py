"""A job on a real Spark standalone cluster: state and output come from another process."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.test_exactly_once import a_bounded_job
from tests.support.databases import fresh_database
from tests.support.oracle import read_windows, twice
from tests.support.server import ServerProcess, eventually
from tests.support.standalone import a_standalone_cluster, can_hide_directories


@pytest.fixture
def on_a_cluster(directory: Path, postgres_url: str) -> Iterator[ServerProcess]:
    with (
        fresh_database(postgres_url) as database,
        a_standalone_cluster(directory / "spark") as master,
    ):
        made = ServerProcess(
            directory / "cluster", "--database-url", database, "--spark-master", master
        )
        try:
            yield made.start()
        finally:
            made.clean_up()


@pytest.mark.long
def test_a_job_runs_on_a_standalone_cluster(on_a_cluster: ServerProcess) -> None:
    server = on_a_cluster
    document = a_bounded_job("cluster")
    document["vertices"][0]["rows"] = 2000
    job = server.submit(document)

    checkpoint = server.until_checkpoint(job, 1)
    server.until_state(job, "finished")
    eventually(lambda: not server.runner_processes(), within=30)

    assert len(checkpoint["acks"]) == 4
    written = read_windows(server.directory / "data" / "cluster")
    assert not twice(written)
    assert sum(row[2] for row in written) == sum(
        number * 104_729 % 1000 + 1 > 100 for number in range(2000)
    )


@pytest.mark.long
@pytest.mark.skipif(not can_hide_directories(), reason="needs the right to mount")
def test_a_worker_that_does_not_see_the_output_directory_is_named(
    directory: Path, postgres_url: str
) -> None:
    # Given a cluster whose worker has another disk where the driver has its data
    data = directory / "cluster" / "data"
    data.mkdir(parents=True)
    with (
        fresh_database(postgres_url) as database,
        a_standalone_cluster(directory / "spark", unmounted=data) as master,
    ):
        server = ServerProcess(
            directory / "cluster", "--database-url", database, "--spark-master", master
        )
        try:
            server.start()
            # When a job starts
            document = {**a_bounded_job("cluster"), "restart": {"strategy": "none"}}
            job = server.submit(document)
            status = server.until_state(job, "failed")
        finally:
            server.clean_up()
    # Then it fails before its first batch, and says which host lacks which directory
    host = socket.gethostname()
    assert f"DirectoryNotShared: host {host} does not see {data}/.cluster.headgate" in str(status)
    assert not list(data.glob("cluster/*"))
    assert not list(data.glob(".cluster.headgate/*"))
