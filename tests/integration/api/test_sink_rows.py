"""The newest rows of a sink through the API: what the JobManager asks, and how it answers."""

import pytest

from jobmanager.protocol.inspection import ReadSinkRows, Refusal, SinkColumn, SinkRows
from tests.support.builders import a_document
from tests.support.cluster import Cluster

pytestmark = pytest.mark.anyio


async def refused(cluster: Cluster, path: str) -> tuple[int, str, str]:
    answer = await cluster.http.get(path)
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    problem = answer.json()
    return answer.status_code, problem["title"], problem["detail"]


async def test_the_rows_that_the_inspector_finds(cluster: Cluster) -> None:
    job, _ = await cluster.running(a_document())
    cluster.inspector.answers = [
        SinkRows(
            columns=[SinkColumn(name="auction", type="bigint")],
            rows=[{"auction": 5}, {"auction": None}],
            origin="batch 7 in /data/out",
        )
    ]

    found = await cluster.get(f"/v1/jobs/{job}/sinks/out/rows?limit=2")

    assert found == {
        "vertex": "out",
        "origin": "batch 7 in /data/out",
        "columns": [{"name": "auction", "type": "bigint"}],
        "rows": [{"auction": 5}, {"auction": None}],
    }
    [question] = cluster.inspector.asked
    assert isinstance(question, ReadSinkRows)
    assert (question.job.hex, question.vertex, question.limit) == (job, "out", 2)
    assert question.graph == a_document()


async def test_what_is_no_sink_is_told_with_the_sinks_there_are(cluster: Cluster) -> None:
    job, _ = await cluster.running(a_document())

    status, title, detail = await refused(cluster, f"/v1/jobs/{job}/sinks/revenue/rows")

    assert (status, title) == (404, "No such sink")
    assert detail == "the job has no sink 'revenue'; its sinks are out"
    assert cluster.inspector.asked == []


async def test_refusals_of_the_inspector_are_told(cluster: Cluster) -> None:
    job, _ = await cluster.running(a_document())
    cluster.inspector.answers = [
        Refusal(reason="not_readable", message="rows of redis are not shown"),
        Refusal(reason="internal", message="Spark fell over"),
    ]
    path = f"/v1/jobs/{job}/sinks/out/rows"

    assert await refused(cluster, path) == (
        422,
        "The rows of the sink cannot be read",
        "rows of redis are not shown",
    )
    status, _, detail = await refused(cluster, path)
    assert (status, detail) == (503, "the rows of sink out were not read: Spark fell over")
