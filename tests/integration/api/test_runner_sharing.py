"""Runners that share a process: what the database and the API say of them."""

from typing import Any
from uuid import UUID, uuid4

import pytest

from jobmanager.core.ids import RunnerId
from tests.support.builders import a_document
from tests.support.cluster import Cluster

pytestmark = pytest.mark.anyio


def a_shared_job(**changes: Any) -> dict[str, Any]:
    return {**a_document(), "execution": {"runner": "shared"}, **changes}


async def cause_of_launch(cluster: Cluster, job: str) -> str:
    items = (await cluster.get(f"/v1/jobs/{job}/history"))["items"]
    [cause] = [one["cause"] for one in items if one["kind"] == "runner_launched"]
    return str(cause)


async def test_runners_of_several_jobs_are_in_one_process(cluster: Cluster) -> None:
    cluster.bench.shared = process = uuid4()
    first, _ = await cluster.running(a_shared_job())
    second, _ = await cluster.running(a_shared_job())

    shown = [(await cluster.get(f"/v1/jobs/{job}/status"))["runner"] for job in (first, second)]

    assert [UUID(one["process"]) for one in shown] == [process, process]
    assert all(one["is_shared"] for one in shown)
    assert shown[0]["id"] != shown[1]["id"]
    assert await cause_of_launch(cluster, first) == f"in the shared process {process}"
    assert not cluster.bench.expected, "a shared process is not given to one job after the other"


async def test_the_end_of_one_runner_leaves_the_other_job_alone(cluster: Cluster) -> None:
    cluster.bench.shared = uuid4()
    first, runner = await cluster.running(a_shared_job())
    second, other = await cluster.running(a_shared_job())

    await cluster.exit(runner, "it failed; its shared process goes on")

    assert await cluster.state(first) == "RESTARTING"
    assert await cluster.state(second) == "RUNNING"
    await other.beat()


async def test_a_job_of_its_own_does_not_get_a_shared_process(cluster: Cluster) -> None:
    cluster.bench.shared = uuid4()
    job, _ = await cluster.running(a_document())

    shown = (await cluster.get(f"/v1/jobs/{job}/status"))["runner"]

    assert not shown["is_shared"]
    assert shown["process"] == shown["id"]


async def test_a_machine_without_shared_processes_runs_the_job_alone(cluster: Cluster) -> None:
    """A server that was started with other settings than the one that took the job."""
    warm = RunnerId(uuid4())
    cluster.bench.warm.append(warm)

    job, runner = await cluster.running(a_shared_job())

    assert runner.id == warm
    told = await cause_of_launch(cluster, job)
    assert told == "this server has no shared processes; on a warm runner"


async def test_a_launch_that_failed_is_repeated_in_another_process(cluster: Cluster) -> None:
    cluster.bench.shared, cluster.bench.broken = uuid4(), "the process did not take it"
    job = await cluster.submit(a_shared_job())
    await cluster.dispatch.run_once()
    cluster.bench.shared, cluster.bench.broken = uuid4(), None
    cluster.clock.pass_time(60)

    runner = await cluster.runner(job)
    await runner.run()

    shown = (await cluster.get(f"/v1/jobs/{job}/status"))["runner"]
    assert UUID(shown["process"]) == cluster.bench.shared


async def test_a_graph_that_cannot_share_is_refused_with_every_reason(cluster: Cluster) -> None:
    document = a_shared_job(spark={"spark.driver.memory": "4g", "spark.foo": "1"})
    document["mode"] = "streaming"

    answer = await cluster.http.post("/v1/jobs", json=document)

    assert answer.status_code == 422
    for name in ("spark.driver.memory", "spark.foo"):
        assert f"{name} can be set only when Spark starts, for all jobs" in answer.text
    alone = await cluster.http.post("/v1/jobs", json={**document, "execution": {"runner": "own"}})
    assert alone.status_code == 202
