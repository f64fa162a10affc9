"""A runner whose sink cannot be fenced is replaced only when it surely writes nothing any more."""

from dataclasses import replace
from typing import Any

import pytest

from tests.support.builders import a_document, a_document_with
from tests.support.cluster import FENCE_AFTER, Cluster, PlayedRunner

pytestmark = pytest.mark.anyio
HEARTBEAT_TIMEOUT = 30
AT_REST = FENCE_AFTER.total_seconds() + 5 + 10
"""Fence time, time to stop, margin."""


def a_python_sink() -> dict[str, Any]:
    # a class of the standard library: nothing is imported before Spark writes
    document = a_document_with(
        "out", connector="python", format=None, path=None, **{"class": "json:JSONEncoder"}
    )
    return {**document, "restart": {"strategy": "fixed_delay", "attempts": 5, "delay": "0s"}}


async def fall_silent(cluster: Cluster) -> None:
    """The runner is cut off, which is noticed; the job is to start again at once."""
    cluster.clock.pass_time(HEARTBEAT_TIMEOUT + 1)
    await cluster.reaper.run_once()
    cluster.clock.pass_time(1)
    await cluster.reaper.run_once()
    await cluster.dispatch.run_once()


async def launched(cluster: Cluster, job: str, attempt: int = 2) -> bool:
    history = (await cluster.get(f"/v1/jobs/{job}/history?limit=1000"))["items"]
    return any(one["kind"] == "runner_launched" and one["attempt"] == attempt for one in history)


async def waiting(cluster: Cluster, job: str) -> list[str]:
    history = (await cluster.get(f"/v1/jobs/{job}/history?limit=1000"))["items"]
    return [one["cause"] for one in history if one["kind"] == "launch_waits"]


async def test_the_runner_is_told_its_fence_time(cluster: Cluster) -> None:
    _, runner = await cluster.running(a_python_sink())
    (run,) = await runner.directives()
    assert run["body"]["fence_after_ms"] == FENCE_AFTER.total_seconds() * 1000


async def test_a_silent_runner_is_replaced_when_its_fence_time_is_surely_over(
    cluster: Cluster,
) -> None:
    job, _ = await cluster.running(a_python_sink())
    await fall_silent(cluster)
    assert not await launched(cluster, job)
    (why,) = await waiting(cluster, job)
    assert "attempt 2 waits for the end of runner" in why
    assert "'out', which cannot be fenced" in why

    cluster.clock.pass_time(AT_REST - HEARTBEAT_TIMEOUT - 2 - 1)
    await cluster.dispatch.run_once()
    assert not await launched(cluster, job)
    assert len(await waiting(cluster, job)) == 1, "said once"

    cluster.clock.pass_time(2)
    await cluster.dispatch.run_once()
    assert await launched(cluster, job)


async def test_many_waits_are_no_failed_launch(cluster: Cluster) -> None:
    job, _ = await cluster.running(a_python_sink())
    await fall_silent(cluster)
    for _ in range(5):
        cluster.clock.pass_time(1)
        await cluster.dispatch.run_once()
    assert await cluster.state(job) == "RESTARTING"


async def test_a_runner_whose_process_was_seen_to_end_is_replaced_at_once(
    cluster: Cluster,
) -> None:
    job, runner = await cluster.running(a_python_sink())
    await fall_silent(cluster)
    await cluster.exit(runner)
    cluster.clock.pass_time(1)
    await cluster.dispatch.run_once()
    assert await launched(cluster, job)


async def test_a_runner_that_has_reported_its_end_is_replaced_at_once(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_python_sink())
    await runner.fail()
    cluster.clock.pass_time(1)
    await cluster.reaper.run_once()
    await cluster.dispatch.run_once()
    assert await launched(cluster, job)


async def test_where_every_sink_is_fenced_nobody_waits(cluster: Cluster) -> None:
    restart = {"strategy": "fixed_delay", "attempts": 5, "delay": "0s"}
    job, _ = await cluster.running(a_document(restart=restart))
    await fall_silent(cluster)
    assert await launched(cluster, job)


async def test_a_runner_out_of_reach_is_not_given_up_before_it_rests(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_python_sink())
    async with cluster.database.unit_of_work() as uow:  # launched by a server that waits longer
        found = await uow.runners.get(runner.id)
        await uow.runners.save(replace(found, fence_after=2 * FENCE_AFTER))
        await uow.commit()
    cluster.bench.name = "another machine"  # the leader's, from now on
    await fall_silent(cluster)
    cluster.clock.pass_time(51)  # longer than a runner may linger
    await cluster.reaper.run_once()
    await cluster.dispatch.run_once()
    assert not await _is_gone(cluster, runner)
    assert not await launched(cluster, job)

    cluster.clock.pass_time(FENCE_AFTER.total_seconds())
    await cluster.reaper.run_once()
    assert await _is_gone(cluster, runner)


async def _is_gone(cluster: Cluster, runner: PlayedRunner) -> bool:
    async with cluster.database.unit_of_work() as uow:
        return (await uow.runners.get(runner.id)).exited_at is not None
