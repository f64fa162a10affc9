"""Runners that are one version older or newer than the server, and what they say."""

import json
from typing import Any

import pytest
from sqlalchemy import text

from jobmanager.protocol.messages import PROTOCOL_HEADER, PROTOCOL_VERSION
from tests.support.builders import a_document
from tests.support.cluster import EVERYONE, Cluster, PlayedRunner

pytestmark = pytest.mark.anyio
NEWER = {"newer": {"than": "this server"}}


def hello(version: int) -> dict[str, Any]:
    return {"protocol": version, "host": "h", "pid": 1, "spark_version": "4.3.0", **NEWER}


async def protocol_of(cluster: Cluster, runner: PlayedRunner) -> Any:
    async with cluster.database.engine.connect() as connection:
        query = text("SELECT protocol FROM runners WHERE id = :id")
        return await connection.scalar(query, {"id": runner.id})


@pytest.mark.parametrize("version", [PROTOCOL_VERSION - 1, PROTOCOL_VERSION, PROTOCOL_VERSION + 1])
async def test_a_runner_of_a_version_next_to_the_servers_registers(
    cluster: Cluster, version: int
) -> None:
    runner = await cluster.runner(await cluster.submit(a_document()))

    answer = await runner.post("register", hello(version))

    assert answer.status_code == 200, answer.text
    assert answer.headers[PROTOCOL_HEADER] == str(PROTOCOL_VERSION)
    assert await protocol_of(cluster, runner) == version
    listed = (await cluster.get("/v1/runners"))["items"]
    [shown] = [one["versions"] for one in listed if one["id"] == str(runner.id)]
    assert shown["protocol"] == str(version)


async def test_a_runner_two_versions_apart_is_refused(cluster: Cluster) -> None:
    runner = await cluster.runner(await cluster.submit(a_document()))

    answer = await runner.post("register", hello(PROTOCOL_VERSION + 2))

    assert answer.status_code == 400
    assert "works with runners that are one version older or newer" in answer.json()["detail"]
    assert answer.headers[PROTOCOL_HEADER] == str(PROTOCOL_VERSION)


async def test_a_runner_of_version_1_is_given_no_token_and_needs_none(cluster: Cluster) -> None:
    job = await cluster.submit(a_document())
    runner = await cluster.runner(job)
    del cluster.http.headers[PROTOCOL_HEADER]
    old = {"protocol": 1, "host": "h", "pid": 1, "spark_version": "4.3.0"}

    registered = await runner.post("register", old)
    [start] = await runner.directives()
    await runner.say("running", restored=[])

    assert registered.status_code == 200
    assert "token" not in start["body"]
    assert runner.tokens == {}
    assert await cluster.state(job) == "RUNNING"


async def test_whatever_a_newer_runner_adds_is_ignored(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    number = (await cluster.http.post(f"/v1/jobs/{job}/checkpoints")).json()["number"]
    region = {"region": "out", "batch": 1, "is_active": True, **NEWER}
    beat = {"job": str(runner.job), "attempt": 1, "regions": [region], **NEWER}
    acks = {**runner.acks(number, *EVERYONE), **NEWER}
    acks["acks"] = [{**one, **NEWER} for one in acks["acks"]]

    heard = await runner.post("heartbeat", beat)
    acked = await runner.post("acks", acks)
    said = await runner.say("finished", **NEWER)

    assert (heard.status_code, acked.json()) == (200, {"outcome": "completed"})
    assert said == {"superseded": False}
    assert await cluster.state(job) == "FINISHED"


async def test_a_decline_for_an_unknown_reason_aborts_the_checkpoint(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    number = (await cluster.http.post(f"/v1/jobs/{job}/checkpoints")).json()["number"]

    assert await runner.decline(number, "eclipse") == "recorded"

    found = await cluster.get(f"/v1/jobs/{job}/checkpoints/{number}")
    assert found["status"] == "aborted"
    assert "no space left" in json.dumps(found)


async def test_an_unknown_kind_of_report_is_refused_and_changes_nothing(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    before = await cluster.get(f"/v1/jobs/{job}/history")
    said = {"job": str(runner.job), "attempt": 1, "at": "2026-11-18T00:00:00Z"}

    answer = await runner.post("attempt", {**said, "body": {"event": "paused"}})

    assert answer.status_code == 400
    assert "reports of the kind 'paused' are not known" in answer.json()["detail"]
    assert await cluster.get(f"/v1/jobs/{job}/history") == before
    assert await cluster.state(job) == "RUNNING"


async def test_an_exit_counts_even_if_the_runners_last_report_is_of_an_unknown_kind(
    cluster: Cluster,
) -> None:
    job, runner = await cluster.running(a_document())
    said = {"job": str(runner.job), "attempt": 1, "at": "2026-11-18T00:00:00Z"}
    directory = cluster.storage / "jobs" / job / "attempts" / "1"
    directory.mkdir(parents=True)
    (directory / "result.json").write_text(json.dumps({**said, "body": {"event": "paused"}}))

    await cluster.exit(runner)

    assert await cluster.state(job) == "RESTARTING"


async def test_a_job_graph_with_an_unknown_field_is_still_refused(cluster: Cluster) -> None:
    answer = await cluster.http.post("/v1/jobs", json={**a_document(), **NEWER})

    assert answer.status_code == 422
    assert "newer" in answer.text
