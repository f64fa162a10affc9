"""Files on a remote file system, by runners in processes of their own."""

import json
from io import BytesIO
from typing import Any
from uuid import uuid4

import pyarrow.parquet
import pytest

from jobmanager.protocol.messages import Exit
from tests.integration.spark.runner_process import ROWS, Site, a_graph, restore_point
from tests.support.hdfs import Hdfs


def graph_on(hdfs: Hdfs, root: str) -> dict[str, Any]:
    """Its sink `raw` shows rows after their checkpoint."""
    graph = a_graph()
    for sink in graph["vertices"][-2:]:
        sink["path"] = f"{hdfs.uri}{root}/{sink['id']}"
    return graph


def ids(hdfs: Hdfs, directory: str) -> list[int]:
    lines = [
        line
        for name in hdfs.files(directory)
        for line in hdfs.get(f"{directory}/{name}").splitlines()
    ]
    return sorted(json.loads(line)["id"] for line in lines)


@pytest.mark.long
def test_a_killed_and_a_stopped_job_go_on_as_another_and_every_row_counts_once(
    site: Site, hdfs: Hdfs
) -> None:
    root = f"/{uuid4().hex}"
    graph = graph_on(hdfs, root)
    # Given a runner that was killed, and its successor that was stopped with a savepoint
    killed = site.launch()
    killed.run(1, graph)
    killed.wait_for_output("raw", 10)
    killed.process.kill()
    killed.process.wait(60)
    stopped = site.launch()
    stopped.run(2, graph)
    stopped.wait_for_output("raw", 20, attempt=2)
    stopped.stop(2, "one")
    assert stopped.report("stopped", "failed").body.event == "stopped"
    stopped.jobmanager.direct(site.job, 2, Exit(reason="done"))
    # When another job starts from the savepoint
    site.job = uuid4()
    other = site.launch()
    other.run(1, graph, restore_point=restore_point(site.root / "savepoints/one"))
    running = other.report("running", "failed").body
    assert running.event == "running", running
    other.report("finished")
    other.jobmanager.direct(site.job, 1, Exit(reason="done"))
    # Then the jobs together have each row once
    assert {one.origin for one in running.restored if one.batch is not None} == {"savepoint"}
    assert ids(hdfs, f"{root}/raw") == list(range(ROWS))
    windows = [
        row
        for name in hdfs.files(f"{root}/out")
        for row in pyarrow.parquet.read_table(BytesIO(hdfs.get(f"{root}/out/{name}"))).to_pylist()
    ]
    assert sum(one["n"] for one in windows) == ROWS
    assert sum(one["total"] for one in windows) == sum(range(ROWS))
