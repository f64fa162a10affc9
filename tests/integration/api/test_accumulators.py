"""What users' code counted can be read while the job runs."""

from typing import Any

import pytest

from tests.support.builders import a_document
from tests.support.cluster import Cluster

pytestmark = pytest.mark.anyio


def region(name: str, **vertices: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {"region": name, "batch": 7, "is_active": True, "accumulators": vertices}


def tally(merge: str, value: float) -> dict[str, Any]:
    return {"merge": merge, "value": value}


async def test_accumulators_are_told_as_flink_tells_them(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    revenue = {"rows": tally("sum", 5), "best": tally("highest", 2.5)}
    big = {"rows": tally("sum", 3)}

    before = await cluster.get(f"/v1/jobs/{job}/accumulators")
    # a vertex behind two sinks says the same twice, and counts once
    await runner.beat(region("out", revenue=revenue, big=big), region("other", big=big))
    found = await cluster.get(f"/v1/jobs/{job}/accumulators")

    assert before["user-task-accumulators"] == []
    assert found["user-task-accumulators"] == [
        {"name": "best", "type": "DoubleMaximum", "value": "2.5", "vertices": ["revenue"]},
        {"name": "rows", "type": "LongCounter", "value": "8", "vertices": ["big", "revenue"]},
    ]


async def test_a_task_has_those_of_its_vertices(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    await runner.beat(region("out", revenue={"rows": tally("sum", 5)}))
    tasks = (await cluster.get(f"/v1/jobs/{job}"))["vertices"]

    found = {
        one["name"]: await cluster.get(f"/v1/jobs/{job}/vertices/{one['id']}/accumulators")
        for one in tasks
    }

    counted = [one for one in found.values() if one["user-accumulators"]]
    assert [one["user-accumulators"][0]["value"] for one in counted] == ["5"]
    answer = await cluster.http.get(f"/v1/jobs/{job}/vertices/{'0' * 32}/accumulators")
    assert answer.status_code == 404
