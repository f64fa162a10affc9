"""Savepoints and stops through the API, with a runner played in the words of the protocol."""

from pathlib import Path
from typing import Any
from urllib.parse import urlparse
from uuid import uuid4

import pytest

from tests.support.builders import a_document
from tests.support.cluster import EVERYONE, Cluster, PlayedRunner

pytestmark = pytest.mark.anyio


async def ask(cluster: Cluster, job: str, what: str = "savepoints", **body: Any) -> str:
    answer = await cluster.http.post(f"/v1/jobs/{job}/{what}", json=body)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["request-id"])


async def last_directive(runner: PlayedRunner) -> dict[str, Any]:
    body: dict[str, Any] = (await runner.directives())[-1]["body"]
    return body


async def acked(runner: PlayedRunner, number: int) -> str:
    body = {**runner.acks(number, *EVERYONE), "manifest": "manifest.json"}
    answer = await runner.post("acks", body)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["outcome"])


def leave_manifest(directory: Path) -> None:
    directory.mkdir(parents=True)
    (directory / "manifest.json").write_text("{}")


def is_there(directory: Path) -> bool:
    return directory.exists()


async def test_a_savepoint_is_an_object_of_its_own(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    trigger = await ask(cluster, job)
    barrier = await last_directive(runner)
    under_way = await cluster.get(f"/v1/jobs/{job}/savepoints/{trigger}")

    await acked(runner, barrier["checkpoint"])

    done = await cluster.get(f"/v1/jobs/{job}/savepoints/{trigger}")
    directory = barrier["savepoint"]["directory"]
    assert under_way == {"status": {"id": "IN_PROGRESS"}, "operation": None}
    assert done == {"status": {"id": "COMPLETED"}, "operation": {"location": directory}}
    [found] = [one for one in (await cluster.get("/v1/savepoints"))["items"] if one["job"] == job]
    assert (found["status"], found["path"], found["parallelism"]) == ("completed", directory, 2)
    latest = (await cluster.get(f"/v1/jobs/{job}/checkpoints"))["latest"]
    assert latest["savepoint"]["external_path"] == directory
    assert latest["completed"] is None
    assert await cluster.state(job) == "RUNNING"


async def test_a_trigger_repeated_with_its_id_is_one_savepoint(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    mine = uuid4().hex

    assert await ask(cluster, job, triggerId=mine) == mine
    assert await ask(cluster, job, triggerId=mine) == mine

    barriers = [d for d in await runner.directives() if d["body"]["kind"] == "barrier"]
    assert len(barriers) == 1
    other = await cluster.http.post(f"/v1/jobs/{job}/stop", json={"triggerId": mine})
    assert other.status_code == 409


async def test_retention_and_recovery_leave_savepoints_alone(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document(checkpointing={"retained": 1}))
    await ask(cluster, job)
    await acked(runner, 1)
    for number in (2, 3):
        await cluster.http.post(f"/v1/jobs/{job}/checkpoints")
        await runner.ack(number, *EVERYONE)

    history = (await cluster.get(f"/v1/jobs/{job}/checkpoints"))["history"]
    assert [(one["id"], one["discarded"]) for one in history] == [
        (3, False),
        (2, True),
        (1, False),
    ]


async def test_stop_ends_the_job_after_its_savepoint(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    trigger = await ask(cluster, job, "stop", drain=True)
    stop = await last_directive(runner)
    assert (stop["kind"], stop["drain"]) == ("stop", True)
    again = await cluster.http.post(f"/v1/jobs/{job}/stop", json={})
    assert again.status_code == 409

    await acked(runner, stop["checkpoint"])
    assert await cluster.state(job) == "RUNNING"
    await runner.say("stopped", savepoint=stop["savepoint"]["id"])

    assert await cluster.state(job) == "FINISHED"
    operation = await cluster.get(f"/v1/operations/{trigger}")
    assert (operation["kind"], operation["status"]) == ("stop", "completed")
    assert [phase["name"] for phase in operation["phases"]] == ["savepoint", "stop"]
    assert operation["result"]["path"] == stop["savepoint"]["directory"]
    reason = (await cluster.get(f"/v1/jobs/{job}/status"))["reason"]
    assert reason == f"stopped with savepoint {stop['savepoint']['directory']}"


async def test_a_runner_that_dies_after_the_savepoint_of_its_stop_is_stopped(
    cluster: Cluster,
) -> None:
    job, runner = await cluster.running(a_document())
    trigger = await ask(cluster, job, "stop")
    await acked(runner, 1)

    await cluster.exit(runner)

    assert await cluster.state(job) == "FINISHED"
    assert (await cluster.get(f"/v1/operations/{trigger}"))["status"] == "completed"


async def test_a_runner_that_dies_before_the_savepoint_is_complete_goes_on(
    cluster: Cluster,
) -> None:
    job, runner = await cluster.running(a_document())
    trigger = await ask(cluster, job, "stop")

    await cluster.exit(runner)

    assert await cluster.state(job) == "RESTARTING"
    operation = await cluster.get(f"/v1/operations/{trigger}")
    assert operation["status"] == "failed"
    assert "attempt_ended" in operation["error"]
    failed = await cluster.get(f"/v1/jobs/{job}/savepoints/{trigger}")
    assert "attempt_ended" in failed["operation"]["failure-cause"]["stack-trace"]


async def test_a_barrier_that_meets_a_stop_does_it_no_harm(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    cluster.clock.pass_time(10)
    await cluster.timer.run_once()
    await ask(cluster, job, "stop")

    await runner.decline(1, "not_running")
    cluster.clock.pass_time(10)
    await cluster.timer.run_once()
    await acked(runner, 2)

    await runner.say("stopped", savepoint=str(uuid4()))
    assert await cluster.state(job) == "FINISHED"
    assert (await cluster.get(f"/v1/jobs/{job}/checkpoints"))["counts"]["total"] == 2


async def test_a_savepoint_that_comes_too_late_does_not_stay_behind(
    cluster: Cluster, tmp_path: Path
) -> None:
    job, runner = await cluster.running(a_document(checkpointing={"timeout": "20s"}))
    target = {"target-directory": str(tmp_path / "late")}
    answer = await cluster.http.post(f"/v1/jobs/{job}/savepoints", json=target)
    assert answer.status_code == 202
    directory = Path(urlparse((await last_directive(runner))["savepoint"]["directory"]).path)
    cluster.clock.pass_time(20)
    await runner.beat()
    await cluster.reaper.run_once()
    leave_manifest(directory)

    assert await acked(runner, 1) == "too_late"
    await cluster.dispatch.run_once()

    assert not is_there(directory)
    assert await cluster.state(job) == "RUNNING"


async def test_cancel_with_a_savepoint_ends_as_cancelled(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    answer = await cluster.http.post(f"/v1/jobs/{job}/savepoints", json={"cancel-job": True})
    assert answer.status_code == 202
    await acked(runner, 1)
    await runner.say("stopped", savepoint=str(uuid4()))

    assert await cluster.state(job) == "CANCELED"


async def test_labels_and_disposal(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    await ask(cluster, job)
    await acked(runner, 1)
    operation = (await cluster.get(f"/v1/jobs/{job}/operations"))["items"][0]
    path = f"/v1/savepoints/{operation['result']['savepoint']}"

    await cluster.http.patch(path, json={"labels": {"before": "upgrade", "x": "y"}})
    labelled = await cluster.http.patch(path, json={"labels": {"x": None}})
    disposed = await cluster.http.delete(path)
    again = await cluster.http.delete(path)

    assert labelled.json()["labels"] == {"before": "upgrade"}
    assert (disposed.status_code, disposed.json()["status"]) == (202, "disposed")
    assert again.json()["status"] == "disposed"
    verified = await cluster.http.post(f"{path}/verify")
    assert verified.status_code == 409


async def test_an_unknown_trigger_is_told_as_flink_does(cluster: Cluster) -> None:
    job, _ = await cluster.running(a_document())

    answer = await cluster.http.get(f"/v1/jobs/{job}/savepoints/{'0' * 32}")

    assert answer.status_code == 404
    assert "There is no savepoint operation with triggerId=" in answer.json()["errors"][0]


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"savepoint": "/nowhere/at/all"}, "manifest.json cannot be read"),
        ({"savepoint": "somewhere"}, "neither the id of a savepoint nor a URI"),
        ({"savepoint": "nowhere://b/x"}, "fsspec knows no nowhere: storage"),
        ({"savepoint": "memory://b/x"}, "it is the memory of one process"),
        ({"checkpoint": "abc"}, "is not <job id>:<checkpoint number>"),
        ({"savepoint": "/a", "checkpoint": "b:1"}, "not both"),
    ],
)
async def test_what_a_job_cannot_start_from_is_refused_at_submission(
    cluster: Cluster, params: dict[str, str], told: str
) -> None:
    answer = await cluster.http.post("/v1/jobs", params=params, json=a_document())

    assert answer.status_code == 422
    assert told in answer.json()["detail"]


async def test_a_savepoint_can_be_asked_for_in_a_store_elsewhere(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    body = {"target-directory": "s3://bucket/savepoints/"}

    answer = await cluster.http.post(f"/v1/jobs/{job}/savepoints", json=body)
    refused = await cluster.http.post(
        f"/v1/jobs/{job}/savepoints", json={"target-directory": "nowhere://bucket/x"}
    )

    assert answer.status_code == 202
    directory = (await last_directive(runner))["savepoint"]["directory"]
    assert directory.startswith("s3://bucket/savepoints/savepoint-")
    assert refused.status_code == 422
    assert "fsspec knows no nowhere: storage" in refused.json()["errors"][0]


async def test_a_savepoint_after_a_drain_is_marked(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    await ask(cluster, job, "stop", drain=True)
    stop = await last_directive(runner)
    body = {**runner.acks(stop["checkpoint"], *EVERYONE), "manifest": "manifest.json"}
    for one in body["acks"]:
        if one["kind"] == "offsets":
            one["watermark"] = "9999-12-31T23:59:59+00:00"

    assert (await runner.post("acks", body)).status_code == 200

    [found] = [one for one in (await cluster.get("/v1/savepoints"))["items"] if one["job"] == job]
    assert found["drained"] is True
    assert stop["drain"] is True
