"""A token of a runner is good for one attempt: everything else it is shown for is refused."""

import hashlib
from dataclasses import replace
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from jobmanager.protocol.messages import ATTEMPT_TOKEN
from tests.integration.api.test_changes import next_attempt, rescale, stopped
from tests.support.builders import NOW, a_document
from tests.support.cluster import EVERYONE, Cluster, PlayedRunner

pytestmark = pytest.mark.anyio
CALLS = ("heartbeat", "acks", "declines", "attempt")


def body_of(call: str, runner: PlayedRunner) -> dict[str, Any]:
    """What would change something if it were believed."""
    about = {"job": str(runner.job), "attempt": runner.attempt}
    match call:
        case "heartbeat":
            return {**about, "regions": [{"region": "out", "batch": 99, "is_active": True}]}
        case "acks":
            return runner.acks(1, *EVERYONE)
        case "declines":
            said = {"region": "out", "reason": "storage", "detail": "no space left"}
            return {**about, "checkpoint": 1, **said}
        case _:
            return {**about, "at": NOW.isoformat(), "body": {"event": "finished"}}


async def call(runner: PlayedRunner, what: str, **headers: str) -> httpx.Response:
    return await runner.http.post(
        f"/v1/runners/{runner.id}/{what}", json=body_of(what, runner), headers=headers
    )


async def what_is(cluster: Cluster, job: str) -> Any:
    """All that a call could have changed."""
    return [
        await cluster.get(f"/v1/jobs/{job}/status"),
        await cluster.get(f"/v1/jobs/{job}/checkpoints/1"),
        await cluster.get(f"/v1/jobs/{job}/history"),
    ]


async def a_checkpoint_under_way(cluster: Cluster) -> tuple[str, PlayedRunner]:
    job, runner = await cluster.running(a_document())
    await cluster.http.post(f"/v1/jobs/{job}/checkpoints")
    return job, runner


def refused(answer: httpx.Response, status: int, why: str) -> None:
    assert (answer.status_code, answer.headers["content-type"]) == (
        status,
        "application/problem+json",  # the runner believes it
    ), answer.text
    assert why in answer.json()["detail"]


@pytest.mark.parametrize("what", CALLS)
async def test_without_its_token_or_with_another_nothing_is_believed(
    cluster: Cluster, what: str
) -> None:
    job, runner = await a_checkpoint_under_way(cluster)
    _, other = await a_checkpoint_under_way(cluster)
    before = await what_is(cluster, job)
    secret = f"Bearer {runner.secret}"

    answers = [
        (await call(runner, what), 401, "Authorization: Bearer"),
        (await call(runner, what, Authorization="Bearer "), 401, "Authorization: Bearer"),
        (await call(runner, what, Authorization=f"Bearer {other.secret}"), 401, "not that of"),
        (await call(runner, what, Authorization=secret), 403, "without its token"),
    ]
    for token in (other.tokens[1], runner.secret, runner.tokens[1] + "x", ""):
        shown = {"Authorization": secret, ATTEMPT_TOKEN: token}
        answers.append((await call(runner, what, **shown), 403, "token"))
    token_alone = {"Authorization": f"Bearer {runner.tokens[1]}", ATTEMPT_TOKEN: runner.tokens[1]}
    answers.append((await call(runner, what, **token_alone), 401, "the secret is not that"))

    for answer, status, why in answers:
        refused(answer, status, why)
    assert await what_is(cluster, job) == before
    shown = {"Authorization": secret, ATTEMPT_TOKEN: runner.tokens[1]}
    assert (await call(runner, what, **shown)).status_code == 200
    assert await what_is(cluster, job) != before


@pytest.mark.parametrize("what", CALLS)
async def test_the_token_of_the_attempt_before_is_not_good_for_the_next_on_the_same_runner(
    cluster: Cluster, what: str
) -> None:
    job, first = await cluster.running(a_document(max_parallelism=8))
    await rescale(cluster, job, 4)
    stop = await stopped(first)
    second = next_attempt(first)
    await second.say("running", restored=[])
    before = await what_is(cluster, job)

    shown = {"Authorization": f"Bearer {first.secret}", ATTEMPT_TOKEN: first.tokens[1]}
    refused(await call(second, what, **shown), 403, "not that of attempt 2")
    refused(
        await call(first, what, **{**shown, ATTEMPT_TOKEN: second.tokens[2]}),
        403,
        "not that of attempt 1",
    )

    assert await what_is(cluster, job) == before
    # what was said of the first is answered as before when it is repeated
    assert not (await first.say("stopped", savepoint=stop["savepoint"]["id"]))["superseded"]
    assert not (await first.beat())["superseded"]
    assert await what_is(cluster, job) == before


@pytest.mark.parametrize("what", CALLS)
async def test_a_superseded_runner_is_told_so_and_cannot_speak_for_its_successor(
    cluster: Cluster, what: str
) -> None:
    job, old = await a_checkpoint_under_way(cluster)
    await old.fail()
    cluster.clock.pass_time(1)
    await cluster.reaper.run_once()
    new = await cluster.runner(job, attempt=2)
    await new.run()
    before = await what_is(cluster, job)

    own = {"Authorization": f"Bearer {old.secret}", ATTEMPT_TOKEN: old.tokens[1]}
    told = await call(old, what, **own)
    claims = replace(old, attempt=2)
    refused(await call(claims, what, **own), 403, "runs attempt 1")
    refused(await call(replace(new, secret=old.secret), what, **own), 401, "not that of runner")

    assert told.status_code == 200
    wanted: dict[str, dict[str, Any]] = {
        "heartbeat": {"superseded": True},
        "attempt": {"superseded": True},
        "acks": {"outcome": "too_late"},
        "declines": {"outcome": "too_late"},
    }
    assert wanted[what].items() <= told.json().items()
    assert await what_is(cluster, job) == before


async def test_a_token_comes_with_the_order_to_run_the_same_each_time_and_only_its_hash_is_kept(
    cluster: Cluster,
) -> None:
    job = await cluster.submit(a_document())
    runner = await cluster.runner(job)
    await runner.register()

    [run] = await runner.directives()
    [again] = await runner.directives()  # the answer was lost
    [other] = await (await cluster.running(a_document()))[1].directives()

    token = run["body"]["token"]
    assert run == again
    assert token not in (other["body"]["token"], runner.secret)
    async with cluster.database.engine.connect() as connection:
        tables = ("runners", "attempts", "outbox", "history")
        rows = {
            table: str((await connection.execute(text(f"SELECT * FROM {table}"))).all())
            for table in tables
        }
    assert hashlib.sha256(token.encode()).hexdigest() in rows["attempts"]
    assert hashlib.sha256(runner.secret.encode()).hexdigest() in rows["runners"]
    assert not any(hidden in shown for shown in rows.values() for hidden in (token, runner.secret))


async def test_no_answer_has_a_secret_or_a_token_but_the_order_to_run(cluster: Cluster) -> None:
    job, runner = await a_checkpoint_under_way(cluster)
    paths = ("/v1/runners", "/v1/jobmanagers", "/v1/config", f"/v1/jobs/{job}")
    more = ("status", "history", "attempts", "checkpoints", "config", "exceptions")

    for path in (*paths, *(f"/v1/jobs/{job}/{one}" for one in more)):
        answer = (await cluster.http.get(path)).text
        for hidden in (runner.secret, runner.tokens[1], "token_hash"):
            assert hidden not in answer, path


async def test_an_attempt_that_a_version_without_tokens_started_is_adopted(
    cluster: Cluster,
) -> None:
    job, runner = await a_checkpoint_under_way(cluster)
    async with cluster.database.engine.begin() as connection:
        await connection.execute(text("UPDATE attempts SET token_hash = NULL"))

    shown = {"Authorization": f"Bearer {runner.secret}"}
    for what in ("heartbeat", "acks"):
        assert (await call(runner, what, **shown)).status_code == 200
    refused(await call(runner, "attempt", Authorization="Bearer x"), 401, "not that of runner")
    assert (await cluster.get(f"/v1/jobs/{job}/checkpoints/1"))["status"] == "completed"


async def test_a_runner_without_an_attempt_says_that_it_lives_with_its_secret_alone(
    cluster: Cluster,
) -> None:
    job = await cluster.submit(a_document())
    runner = await cluster.runner(job)
    await runner.register()

    answer = await runner.post("heartbeat", {"job": None, "attempt": None, "regions": []})

    assert answer.status_code == 200
    assert await cluster.state(job) == "INITIALIZING"
