"""Checkpoints through the API: barriers out, acks back, everything that can go wrong between."""

import asyncio
from typing import Any

import pytest

from tests.support.builders import a_document
from tests.support.cluster import EVERYONE, Cluster, PlayedRunner

pytestmark = pytest.mark.anyio


def tolerant(failures: int, **more: Any) -> dict[str, Any]:
    return a_document(checkpointing={"interval": "10s", "tolerable_failures": failures, **more})


async def take(cluster: Cluster, job: str) -> int:
    answer = await cluster.http.post(f"/v1/jobs/{job}/checkpoints")
    assert answer.status_code == 202, answer.text
    return int(answer.json()["number"])


async def complete(cluster: Cluster, job: str, runner: PlayedRunner) -> int:
    number = await take(cluster, job)
    assert await runner.ack(number, *EVERYONE) == "completed"
    return number


async def test_a_checkpoint_is_complete_when_every_awaited_subtask_acked(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    number = await take(cluster, job)
    barrier = (await runner.directives())[-1]

    before = await cluster.get(f"/v1/jobs/{job}/checkpoints/{number}")
    assert await runner.ack(number, *EVERYONE[:3]) == "recorded"
    assert await runner.ack(number, EVERYONE[3]) == "completed"
    after = await cluster.get(f"/v1/jobs/{job}/checkpoints/{number}")

    assert barrier["body"]["kind"] == "barrier"
    assert barrier["body"]["checkpoint"] == number
    awaited = [(one["vertex"], one["subtask"]) for one in before["awaited"]]
    assert awaited == [("bids", 0), ("out", 0), ("revenue", 0), ("revenue", 1)]
    assert (before["status"], after["status"]) == ("in_progress", "completed")
    assert after["awaited"] == []
    assert len(after["acks"]) == 4
    assert {(one["waited_ms"], one["snapshot_ms"]) for one in after["acks"]} == {(70, 30)}
    announcement = (await runner.directives())[-1]
    assert announcement["body"] == {"kind": "checkpoint_completed", "checkpoint": number}


async def test_acks_that_come_at_the_same_time_complete_it_once(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    number = await take(cluster, job)

    outcomes = await asyncio.gather(*(runner.ack(number, one) for one in EVERYONE * 2))

    assert sorted(outcomes).count("completed") == 1
    assert outcomes.count("recorded") == 3
    counts = (await cluster.get(f"/v1/jobs/{job}/checkpoints"))["counts"]
    assert counts["completed"] == 1


async def test_the_timer_triggers_one_each_interval_and_none_beside_another(
    cluster: Cluster,
) -> None:
    job, runner = await cluster.running(tolerant(0))

    for _ in range(3):
        await cluster.timer.run_once()
        cluster.clock.pass_time(10)
    await cluster.timer.run_once()
    await cluster.timer.run_once()

    history = (await cluster.get(f"/v1/jobs/{job}/checkpoints"))["history"]
    assert [one["id"] for one in history] == [1]
    await runner.ack(1, *EVERYONE)
    await cluster.timer.run_once()
    assert (await cluster.get(f"/v1/jobs/{job}/checkpoints"))["counts"]["total"] == 2


async def test_the_pause_after_a_slow_one_is_kept(cluster: Cluster) -> None:
    job, runner = await cluster.running(tolerant(0, min_pause="8s"))
    cluster.clock.pass_time(10)
    await cluster.timer.run_once()
    cluster.clock.pass_time(9)
    await runner.ack(1, *EVERYONE)

    cluster.clock.pass_time(7)
    await cluster.timer.run_once()
    assert (await cluster.get(f"/v1/jobs/{job}/checkpoints"))["counts"]["total"] == 1
    cluster.clock.pass_time(1)
    await cluster.timer.run_once()
    assert (await cluster.get(f"/v1/jobs/{job}/checkpoints"))["counts"]["total"] == 2


async def test_an_expired_one_says_who_was_late(cluster: Cluster) -> None:
    job, runner = await cluster.running(tolerant(5, timeout="20s"))
    number = await take(cluster, job)
    await runner.ack(number, *EVERYONE[:3])

    cluster.clock.pass_time(20)
    await runner.beat()
    await cluster.reaper.run_once()

    found = await cluster.get(f"/v1/jobs/{job}/checkpoints/{number}")
    assert found["failure"] == {"reason": "expired", "detail": "no ack from out/0 in time"}
    assert await runner.ack(number, EVERYONE[3]) == "too_late"
    assert await cluster.state(job) == "RUNNING"


async def test_a_job_that_tolerates_no_failed_checkpoint_is_restarted(cluster: Cluster) -> None:
    job, runner = await cluster.running(tolerant(0))
    cluster.clock.pass_time(10)
    await cluster.timer.run_once()

    assert await runner.decline(1) == "recorded"

    assert await cluster.state(job) == "RESTARTING"
    reason = (await cluster.get(f"/v1/jobs/{job}/status"))["reason"]
    assert "checkpoint 1 declined_storage" in reason
    assert (await runner.beat())["superseded"]


async def test_a_barrier_that_a_failed_query_declines_does_not_hide_why_it_failed(
    cluster: Cluster,
) -> None:
    job, runner = await cluster.running(tolerant(0))
    cluster.clock.pass_time(10)
    await cluster.timer.run_once()

    assert await runner.decline(1, "not_running") == "recorded"
    still = await cluster.state(job)
    await runner.fail("[DIVIDE_BY_ZERO] row 7", kind="data")

    assert still == "RUNNING"
    assert await cluster.state(job) == "RESTARTING"
    assert (await cluster.get(f"/v1/jobs/{job}/status"))["reason"] == "[DIVIDE_BY_ZERO] row 7"
    [entry] = (await cluster.get(f"/v1/jobs/{job}/exceptions"))["exceptionHistory"]["entries"]
    assert entry["exceptionName"] == "data"


async def test_a_tolerated_failure_is_forgotten_when_the_next_one_completes(
    cluster: Cluster,
) -> None:
    job, runner = await cluster.running(tolerant(1))
    for number, ends_well in enumerate([False, True, False, True], start=1):
        cluster.clock.pass_time(10)
        await cluster.timer.run_once()
        if ends_well:
            await runner.ack(number, *EVERYONE)
        else:
            await runner.decline(number)

    assert await cluster.state(job) == "RUNNING"


async def test_older_ones_go_by_retention_and_the_newest_stays(cluster: Cluster) -> None:
    job, runner = await cluster.running(tolerant(0, retained=2))
    for _ in range(4):
        await complete(cluster, job, runner)

    history = (await cluster.get(f"/v1/jobs/{job}/checkpoints"))["history"]

    assert [(one["id"], one["discarded"]) for one in history] == [
        (4, False),
        (3, False),
        (2, True),
        (1, True),
    ]


async def test_a_new_attempt_is_told_the_newest_completed_one(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    await complete(cluster, job, runner)
    newest = await complete(cluster, job, runner)
    unfinished = await take(cluster, job)
    await cluster.exit(runner)
    cluster.clock.pass_time(1)
    await cluster.reaper.run_once()

    second = await cluster.runner(job, attempt=2)
    start = (await second.directives())[0]

    assert start["body"]["checkpoint"] == {
        "number": newest,
        "manifest": f"checkpoints/{newest}/manifest.json",
    }
    aborted = await cluster.get(f"/v1/jobs/{job}/checkpoints/{unfinished}")
    assert aborted["failure"]["reason"] == "attempt_ended"


async def test_a_long_poll_is_woken_by_a_barrier(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    last = (await runner.directives())[-1]["id"]

    poll = asyncio.create_task(runner.directives(after=last, wait_ms=30_000))
    await asyncio.sleep(0.1)
    number = await take(cluster, job)
    [barrier] = await asyncio.wait_for(poll, timeout=25)

    assert barrier["body"]["checkpoint"] == number


async def test_only_a_running_streaming_job_takes_checkpoints(cluster: Cluster) -> None:
    starting = await cluster.submit(a_document())
    batch, _ = await cluster.running(a_document(mode="batch"))

    problem = {"Accept": "application/problem+json"}
    too_early = await cluster.http.post(f"/v1/jobs/{starting}/checkpoints", headers=problem)
    never = await cluster.http.post(f"/v1/jobs/{batch}/checkpoints")

    assert (too_early.status_code, never.status_code) == (409, 422)
    assert too_early.headers["content-type"] == "application/problem+json"
    assert "only a running job takes checkpoints" in too_early.json()["detail"]
