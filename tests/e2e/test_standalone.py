"""A job on a real Spark standalone cluster: state and output come from another process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.test_exactly_once import a_bounded_job
from tests.support.databases import fresh_database
from tests.support.oracle import read_windows, twice
from tests.support.server import ServerProcess, eventually
from tests.support.standalone import a_standalone_cluster


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
