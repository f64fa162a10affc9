"""A job's life through the API, with a runner played in the words of the protocol."""

import asyncio
import json
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from jobmanager.core.ids import AttemptNumber, JobId
from tests.support.builders import NOW, a_document
from tests.support.cluster import EVERYONE, Cluster

pytestmark = pytest.mark.anyio


def leave_last_word(directory: Path, word: dict[str, Any]) -> None:
    directory.mkdir(parents=True)
    (directory / "result.json").write_text(json.dumps(word))


async def test_a_submitted_job_runs_and_finishes(cluster: Cluster) -> None:
    job = await cluster.submit(a_document())
    assert await cluster.state(job) == "INITIALIZING"

    runner = await cluster.runner(job)
    [start] = await runner.directives()
    await runner.run()
    assert await cluster.state(job) == "RUNNING"
    await runner.say("finished")

    assert start["body"]["kind"] == "run"
    assert start["body"]["graph"] == a_document()
    assert start["body"]["checkpoint"] is None
    assert await cluster.state(job) == "FINISHED"
    [last] = await runner.directives(after=start["id"])
    assert last["body"]["kind"] == "exit"


async def test_directives_come_again_until_they_are_taken(cluster: Cluster) -> None:
    _, runner = await cluster.running(a_document())

    first = await runner.directives()
    again = await runner.directives()
    taken = await runner.directives(after=first[-1]["id"])

    assert first == again
    assert taken == []


async def test_a_runner_that_dies_is_replaced_after_the_delay(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())

    await cluster.exit(runner)
    assert await cluster.state(job) == "RESTARTING"
    cluster.clock.pass_time(1)
    await cluster.reaper.run_once()
    second = await cluster.runner(job, attempt=2)
    await second.run()

    assert await cluster.state(job) == "RUNNING"
    status = await cluster.get(f"/v1/jobs/{job}/status")
    assert (status["attempt"], status["restarts"]) == (2, 1)
    [entry] = (await cluster.get(f"/v1/jobs/{job}/exceptions"))["exceptionHistory"]["entries"]
    assert "killed by SIGKILL" in entry["stacktrace"]


async def test_whatever_a_replaced_runner_says_changes_nothing(cluster: Cluster) -> None:
    job, old = await cluster.running(a_document())
    number = (await cluster.http.post(f"/v1/jobs/{job}/checkpoints")).json()["number"]
    await old.fail()
    cluster.clock.pass_time(1)
    await cluster.reaper.run_once()
    new = await cluster.runner(job, attempt=2)
    await new.run()

    cluster.clock.pass_time(1)
    before = (await cluster.get("/v1/runners"))["items"]
    assert (await old.beat())["superseded"]
    assert (await old.say("finished"))["superseded"]
    assert await old.ack(number, *EVERYONE) == "too_late"
    assert await cluster.state(job) == "RUNNING"
    assert (await cluster.get("/v1/runners"))["items"] == before


async def test_a_runner_out_of_reach_is_given_up_when_its_attempt_has_ended(
    cluster: Cluster,
) -> None:
    _, runner = await cluster.running(a_document())
    cluster.bench.name = "another machine"
    await runner.fail()
    await cluster.dispatch.run_once()

    async def listed() -> dict[str, Any]:
        items = (await cluster.get("/v1/runners"))["items"]
        return next(one for one in items if one["id"] == str(runner.id))

    cluster.clock.pass_time(45)
    await cluster.reaper.run_once()
    assert (await listed())["exited_at"] is None
    cluster.clock.pass_time(10)
    await cluster.reaper.run_once()
    assert (await listed())["exit"] == "presumed to have ended: bench is out of reach"


async def test_a_runner_cannot_speak_for_another_attempt(cluster: Cluster) -> None:
    _, runner = await cluster.running(a_document())
    runner.attempt = 2

    answer = await runner.post("acks", runner.acks(1, *EVERYONE))

    assert answer.status_code == 403
    assert "runs attempt 1" in answer.json()["detail"]


async def test_a_stranger_is_not_let_in(cluster: Cluster) -> None:
    _, runner = await cluster.running(a_document())
    runner.secret = "guessed"

    answer = await runner.register()
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"  # the runner believes it


async def test_the_last_word_of_a_runner_that_died_before_it_was_heard_counts(
    cluster: Cluster,
) -> None:
    job, runner = await cluster.running(a_document())
    word = {"job": job, "attempt": 1, "at": NOW.isoformat(), "body": {"event": "finished"}}
    leave_last_word(cluster.storage / "jobs" / job / "attempts" / "1", word)

    await cluster.exit(runner, "exit code 0")

    assert await cluster.state(job) == "FINISHED"


async def test_a_failure_no_restart_can_cure_fails_the_job_at_once(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())

    await runner.fail("no column 'prize'", restartable=False)

    assert await cluster.state(job) == "FAILED"
    reason = (await cluster.get(f"/v1/jobs/{job}/status"))["reason"]
    assert reason.startswith("no column 'prize' (a restart would not help")


async def test_silence_is_a_failure_and_the_silent_one_is_killed(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())

    cluster.clock.pass_time(29)
    await cluster.reaper.run_once()
    assert await cluster.state(job) == "RUNNING"
    cluster.clock.pass_time(2)
    await cluster.reaper.run_once()
    await cluster.dispatch.run_once()

    assert await cluster.state(job) == "RESTARTING"
    assert runner.id in cluster.bench.killed


async def test_silence_means_nothing_while_we_could_not_hear(cluster: Cluster) -> None:
    job, _ = await cluster.running(a_document())

    cluster.clock.pass_time(1000)
    cluster.reaper.failed()
    await cluster.reaper.run_once()

    assert await cluster.state(job) == "RUNNING"


async def test_a_heartbeat_with_progress_makes_up_for_a_lost_report(cluster: Cluster) -> None:
    job = await cluster.submit(a_document())
    runner = await cluster.runner(job)
    await runner.register()

    await runner.beat()
    assert await cluster.state(job) == "INITIALIZING"
    await runner.beat({"region": "out", "batch": None, "is_active": True})

    assert await cluster.state(job) == "RUNNING"


async def test_cancel_tells_the_runner_and_ends_when_it_has_stopped(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    [start] = await runner.directives()

    answer = await cluster.http.patch(f"/v1/jobs/{job}", params={"mode": "cancel"})
    assert (answer.status_code, answer.json()) == (202, {})
    assert await cluster.state(job) == "CANCELLING"
    [cancel] = await runner.directives(after=start["id"])
    await runner.say("cancelled", detail="at the boundary after batch 7")

    assert cancel["body"] == {"kind": "cancel", "grace_ms": 30_000, "keep_runner_ms": None}
    assert await cluster.state(job) == "CANCELED"
    again = await cluster.http.patch(f"/v1/jobs/{job}")
    assert again.status_code == 202


async def test_a_runner_that_does_not_stop_is_killed(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    await cluster.http.patch(f"/v1/jobs/{job}")

    cluster.clock.pass_time(39)
    await runner.beat()
    await cluster.reaper.run_once()
    assert await cluster.state(job) == "CANCELLING"
    cluster.clock.pass_time(1)
    await runner.beat()
    await cluster.reaper.run_once()
    await cluster.dispatch.run_once()

    assert await cluster.state(job) == "CANCELED"
    assert runner.id in cluster.bench.killed


async def test_a_finished_job_cannot_be_cancelled(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    await runner.say("finished")

    answer = await cluster.http.patch(f"/v1/jobs/{job}")

    assert answer.status_code == 409
    assert "it is finished" in answer.json()["errors"][0]


async def a_job_that_cannot_be_launched(cluster: Cluster, because: str) -> str:
    cluster.bench.broken = because
    job = await cluster.submit(a_document(restart={"strategy": "none"}))
    for _ in range(4):  # three tries, and what follows the last
        await cluster.dispatch.run_once()
        cluster.clock.pass_time(5)
    return job


async def test_a_launch_that_fails_for_good_is_a_failed_attempt(cluster: Cluster) -> None:
    job = await a_job_that_cannot_be_launched(cluster, "Spark needs Java 17 or newer")

    assert await cluster.state(job) == "FAILED"
    status = await cluster.get(f"/v1/jobs/{job}/status")
    assert "Spark needs Java 17 or newer" in status["reason"]


async def test_of_a_launch_that_failed_for_good_nothing_is_left(cluster: Cluster) -> None:
    """Found by a full disk in the chaos suite: its directives were in the outbox for ever."""
    job = await a_job_that_cannot_be_launched(cluster, "No space left on device")

    async with cluster.database.unit_of_work() as uow:
        runner = await uow.runners.of_attempt(JobId(UUID(hex=job)), AttemptNumber(1))
        assert runner is not None
        boxes = await uow.outbox.mailboxes([runner.id])
    assert runner.exit_description == "it was not started"
    assert runner.exited_at is not None
    assert [box.entries for box in boxes.values()] == [[]]


async def test_a_submission_with_a_key_is_accepted_once(cluster: Cluster) -> None:
    headers = {"Idempotency-Key": uuid4().hex}
    first = await cluster.http.post("/v1/jobs", json=a_document(), headers=headers)
    again = await cluster.http.post("/v1/jobs", json=a_document(), headers=headers)
    other = await cluster.http.post("/v1/jobs", json=a_document(name="other"), headers=headers)

    assert first.json() == again.json()
    assert other.status_code == 409


async def test_of_submissions_with_one_key_at_the_same_time_one_is_accepted(
    cluster: Cluster,
) -> None:
    headers = {"Idempotency-Key": uuid4().hex}

    answers = await asyncio.gather(
        *(cluster.http.post("/v1/jobs", json=a_document(), headers=headers) for _ in range(5))
    )

    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["jobid"] for answer in answers}) == 1


async def test_what_a_dead_runner_never_took_is_forgotten(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    await cluster.http.post(f"/v1/jobs/{job}/checkpoints")
    await cluster.exit(runner)

    async with cluster.database.unit_of_work() as uow:
        boxes = await uow.outbox.mailboxes([runner.id])
    assert [box.entries for box in boxes.values()] == [[]]


async def test_history_tells_everything_in_order(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    await runner.say("finished")

    page = await cluster.get(f"/v1/jobs/{job}/history?limit=3")
    rest = await cluster.get(f"/v1/jobs/{job}/history?cursor={page['next']}")

    assert [item["kind"] for item in page["items"] + rest["items"]] == [
        "job_submitted",
        "attempt_launching",
        "runner_launched",
        "attempt_starting",
        "attempt_running",
        "job_running",
        "attempt_finished",
        "job_finished",
    ]
    assert rest["next"] is None


async def fail_again_and_again(cluster: Cluster, job: str, times: int, **failure: Any) -> None:
    """Each attempt gets as far as batch 16."""
    for attempt in range(1, times + 1):
        runner = await cluster.runner(job, attempt)
        await runner.run()
        await runner.beat({"region": "out", "batch": 16, "is_active": True})
        await runner.fail(**failure)
        cluster.clock.pass_time(120)
        await cluster.reaper.run_once()


async def test_a_job_that_fails_at_the_same_place_for_the_same_reason_is_given_up(
    cluster: Cluster,
) -> None:
    job = await cluster.submit(a_document())

    await fail_again_and_again(cluster, job, 4, message="[DIVIDE_BY_ZERO] row 7", kind="data")
    before = await cluster.state(job)
    last = await cluster.runner(job, 5)
    await last.run()
    await last.fail("[DIVIDE_BY_ZERO] row 9", kind="data")

    assert before == "RESTARTING"
    assert await cluster.state(job) == "FAILED"
    assert (await cluster.get(f"/v1/jobs/{job}/status"))["reason"] == (
        "circuit breaker: failed 5 times at batch 17 with the same cause: [DIVIDE_BY_ZERO] row 9"
    )


async def test_an_outage_is_waited_for_longer_than_a_fault_of_the_job(cluster: Cluster) -> None:
    job = await cluster.submit(a_document())

    await fail_again_and_again(cluster, job, 7, message="connection refused")

    assert await cluster.state(job) == "RESTARTING"


async def test_exceptions_are_told_as_flink_does_with_their_kind(cluster: Cluster) -> None:
    job = await cluster.submit(a_document())
    await fail_again_and_again(cluster, job, 2, message="row 7", kind="data")
    await fail_once_more(cluster, job, attempt=3)

    history = (await cluster.get(f"/v1/jobs/{job}/exceptions"))["exceptionHistory"]
    only_data = await cluster.get(f"/v1/jobs/{job}/exceptions?failureLabelFilter=kind:data")
    [newest] = (await cluster.get(f"/v1/jobs/{job}/exceptions?maxExceptions=1"))[
        "exceptionHistory"
    ]["entries"]

    assert [one["exceptionName"] for one in history["entries"]] == ["lost", "data", "data"]
    assert history["truncated"] is False
    assert len(only_data["exceptionHistory"]["entries"]) == 2
    assert newest["failureLabels"] == {"kind": "lost", "restartable": "true"}
    assert newest["headgate-attempt"] == 3


async def fail_once_more(cluster: Cluster, job: str, attempt: int) -> None:
    await cluster.exit(await cluster.runner(job, attempt))
