"""A job is paused and resumed, with a runner played in the words of the protocol."""

from dataclasses import replace
from typing import Any

import pytest

from tests.support.builders import a_document
from tests.support.cluster import Cluster, PlayedRunner

pytestmark = pytest.mark.anyio
AN_HOUR_MS = 3_600_000


async def paused(cluster: Cluster) -> tuple[str, PlayedRunner]:
    job, runner = await cluster.running(a_document())
    answer = await cluster.http.post(f"/v1/jobs/{job}/pause")
    assert (answer.status_code, answer.json()["state"]) == (202, "pausing")
    await runner.say("cancelled", detail="out ended after its batch")
    return job, runner


async def last_directive(runner: PlayedRunner) -> dict[str, Any]:
    return (await runner.directives())[-1]


async def test_a_paused_job_continues_on_the_runner_that_has_waited(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())

    assert (await cluster.http.post(f"/v1/jobs/{job}/pause")).json()["state"] == "pausing"
    body = (await last_directive(runner))["body"]
    assert (body["kind"], body["keep_runner_ms"]) == ("cancel", AN_HOUR_MS)
    assert await cluster.state(job) == "RUNNING"
    await runner.say("cancelled", detail="out ended after its batch")
    status = await cluster.get(f"/v1/jobs/{job}/status")
    assert (status["state"], status["desired"]) == ("paused", "paused")
    assert await cluster.state(job) == "SUSPENDED"

    cluster.clock.pass_time(1800)
    await cluster.reaper.run_once()
    assert runner.id not in cluster.bench.killed
    resumed = await cluster.http.post(f"/v1/jobs/{job}/resume")
    assert (resumed.status_code, resumed.json()["state"]) == (202, "starting")
    second = replace(runner, attempt=2)
    directive = await last_directive(second)
    assert (directive["body"]["kind"], directive["attempt"]) == ("run", 2)
    await second.run()

    assert await cluster.state(job) == "RUNNING"
    history = (await cluster.get(f"/v1/jobs/{job}/history?limit=1000"))["items"]
    kinds = [one["kind"] for one in history if one["kind"].startswith("job_")]
    assert kinds[-4:] == ["job_pausing", "job_paused", "job_starting", "job_running"]


async def test_the_application_of_a_paused_job_runs_on_for_flinks_clients(cluster: Cluster) -> None:
    job, _ = await paused(cluster)

    listed = (await cluster.get("/applications/overview"))["applications"]
    shown = await cluster.get(f"/applications/{job}")

    mine = next(one for one in listed if one["id"] == job)
    assert (mine["status"], mine["jobs"]["suspended"]) == ("RUNNING", 1)
    assert shown["status"] == "RUNNING"


async def test_a_paused_job_stays_paused_when_its_runner_is_killed(cluster: Cluster) -> None:
    job, runner = await paused(cluster)

    await cluster.exit(runner)
    cluster.clock.pass_time(3600)
    await cluster.reaper.run_once()
    await cluster.dispatch.run_once()

    assert await cluster.state(job) == "SUSPENDED"
    await cluster.http.post(f"/v1/jobs/{job}/resume")
    await (await cluster.runner(job, attempt=2)).run()
    assert await cluster.state(job) == "RUNNING"


async def test_a_runner_that_waits_too_long_is_seen_off(cluster: Cluster) -> None:
    job, runner = await paused(cluster)

    cluster.clock.pass_time(3600 + 60)
    await cluster.reaper.run_once()

    assert runner.id in cluster.bench.killed
    assert await cluster.state(job) == "SUSPENDED"


async def test_requests_are_repeated_without_effect_and_refused_where_they_make_no_sense(
    cluster: Cluster,
) -> None:
    job, runner = await paused(cluster)

    again = await cluster.http.post(f"/v1/jobs/{job}/pause")
    refused = [
        await cluster.http.post(f"/v1/jobs/{job}/{what}", json={})
        for what in ("savepoints", "checkpoints")
    ]
    assert again.json()["state"] == "paused"
    assert [one.status_code for one in refused] == [409, 409]

    await cluster.http.patch(f"/v1/jobs/{job}?mode=cancel")
    assert await cluster.state(job) == "CANCELED"
    assert (await last_directive(runner))["body"]["kind"] == "exit"
    ended = await cluster.http.post(f"/v1/jobs/{job}/resume")
    assert ended.status_code == 409
    assert "cannot be resumed: it is cancelled" in ended.json()["detail"]
