"""RUNNING means running: a job that stands still or has no checkpoints is shown as that."""

from typing import Any

import pytest

from tests.support.builders import a_document
from tests.support.cluster import EVERYONE, Cluster

pytestmark = pytest.mark.anyio


def region(unmoved_ms: int | None, batch: int = 7, **more: Any) -> dict[str, Any]:
    return {"region": "out", "batch": batch, "is_active": True, "unmoved_ms": unmoved_ms, **more}


def patient(**checkpointing: Any) -> dict[str, Any]:
    return a_document(checkpointing={"interval": "10s", "tolerable_failures": 9, **checkpointing})


async def status(cluster: Cluster, job: str) -> dict[str, Any]:
    found: dict[str, Any] = await cluster.get(f"/v1/jobs/{job}/status")
    return found


async def kinds(cluster: Cluster, job: str) -> list[str]:
    items = (await cluster.get(f"/v1/jobs/{job}/history"))["items"]
    return [one["kind"] for one in items if one["kind"].startswith("job_")]


async def test_a_job_that_stands_still_is_stalled_until_it_moves(cluster: Cluster) -> None:
    job, runner = await cluster.running(patient())
    running_since = (await status(cluster, job))["since"]
    cluster.clock.pass_time(5)
    await runner.beat(region(61_000, activity="Processing new data"))
    await cluster.watchdog.run_once()
    stalled = await status(cluster, job)
    cluster.clock.pass_time(5)
    await runner.beat(region(66_000, activity="Processing new data"))
    await cluster.watchdog.run_once()
    still = await status(cluster, job)
    await runner.beat(region(100, batch=8))
    await cluster.watchdog.run_once()
    moving = await status(cluster, job)

    assert (stalled["state"], stalled["status"]) == ("stalled", "RUNNING")
    assert "committed nothing after batch 7 for more than 60 s" in stalled["reason"]
    assert stalled["running_since"] == running_since
    assert (still["reason"], still["since"]) == (stalled["reason"], stalled["since"])
    assert stalled["since"] > running_since
    assert (moving["state"], moving["since"]) == ("running", running_since)
    assert await kinds(cluster, job) == [
        "job_submitted",
        "job_running",
        "job_stalled",
        "job_healthy",
    ]


async def test_the_limit_grows_with_the_usual_batch(cluster: Cluster) -> None:
    job, runner = await cluster.running(patient())

    await runner.beat(region(200_000, median_batch_ms=30_000))
    await cluster.watchdog.run_once()

    assert (await status(cluster, job))["state"] == "running"


async def test_checkpoints_that_fail_degrade_a_job_until_one_completes(cluster: Cluster) -> None:
    job, runner = await cluster.running(patient())
    cluster.clock.pass_time(10)
    await runner.beat(region(0))
    await cluster.timer.run_once()
    await runner.decline(1)
    await cluster.watchdog.run_once()
    degraded = await status(cluster, job)
    cluster.clock.pass_time(10)
    await runner.beat(region(0))
    await cluster.timer.run_once()
    await runner.ack(2, *EVERYONE)
    await cluster.watchdog.run_once()

    assert (degraded["state"], degraded["reason"]) == ("degraded", "the last checkpoint failed")
    assert (await status(cluster, job))["state"] == "running"


async def test_late_heartbeats_degrade_a_job_before_it_is_lost(cluster: Cluster) -> None:
    job, runner = await cluster.running(patient())
    await runner.beat(region(0))
    cluster.clock.pass_time(11)

    await cluster.watchdog.run_once()
    await cluster.reaper.run_once()

    degraded = await status(cluster, job)
    assert degraded["state"] == "degraded"
    assert degraded["reason"].startswith("no heartbeat from the runner since")


async def test_silence_means_nothing_to_the_watchdog_while_we_could_not_hear(
    cluster: Cluster,
) -> None:
    job, _ = await cluster.running(patient())
    cluster.clock.pass_time(5000)

    cluster.watchdog.failed()
    await cluster.watchdog.run_once()

    assert (await status(cluster, job))["state"] == "running"


async def test_a_job_without_a_checkpoint_for_long_is_degraded(cluster: Cluster) -> None:
    job, runner = await cluster.running(patient(timeout="1m"))
    cluster.clock.pass_time(91)
    await runner.beat(region(0))

    await cluster.watchdog.run_once()

    assert (await status(cluster, job))["reason"] == "no checkpoint has completed yet"


async def test_a_job_that_restarts_is_neither_stalled_nor_degraded(cluster: Cluster) -> None:
    job, runner = await cluster.running(patient())
    await runner.beat(region(61_000))
    await cluster.watchdog.run_once()

    await runner.fail()

    restarting = await status(cluster, job)
    assert (restarting["state"], restarting["reason"]) == ("restarting", "boom")


async def test_lists_show_it_beside_flinks_word(cluster: Cluster) -> None:
    job, runner = await cluster.running(patient())
    await runner.beat(region(61_000))
    await cluster.watchdog.run_once()

    listed = (await cluster.get("/v1/jobs/overview"))["jobs"]

    [found] = [one for one in listed if one["jid"] == job]
    assert (found["state"], found["headgate-state"]) == ("RUNNING", "stalled")
