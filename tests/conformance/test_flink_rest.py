"""Our answers are what Flink's clients expect: every documented operation of Flink 2.3 is sent, and
its answer compared with Flink's OpenAPI document and with recordings of a real Flink 2.3 cluster.

`flink_rest/` holds both. Fields of ours may be added, none renamed or left out.
"""

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.flink_document import OPERATIONS, breaches, differences, recorded
from tests.conformance.flink_world import FlinkWorld, a_world
from tests.support.builders import a_document
from tests.support.cluster import EVERYONE, Cluster

pytestmark = pytest.mark.anyio
REFUSED = {
    ("DELETE", "/cluster"): 422,
    ("GET", "/datasets/delete/{triggerid}"): 404,
    ("DELETE", "/datasets/{datasetid}"): 404,
}
"""Operations about what Headgate has not: see docs/flink-rest-api.md."""
OTHER_STATUS = {("PATCH", "/jobs/{jobid}/rescaling"): 202, ("POST", "/savepoint-disposal"): 202}
"""Flink answers 200 to these requests, and 202 to all others that are carried out later."""
LAST = ("/jobs/{jobid}/stop", "/jobs/{jobid}", "/applications/{applicationid}/cancel")
RECORDINGS = {
    "/jobs": "jobs",
    "/jobs/overview": "jobs_overview",
    "/jobs/{jobid}": "job",
    "/jobs/{jobid}/plan": "plan",
    "/jobs/{jobid}/status": "status",
    "/jobs/{jobid}/config": "job_config",
    "/jobs/{jobid}/exceptions": "exceptions",
    "/jobs/{jobid}/accumulators": "accumulators",
    "/jobs/{jobid}/checkpoints": "checkpoints",
    "/jobs/{jobid}/checkpoints/config": "checkpoints_config",
    "/jobs/{jobid}/checkpoints/details/{checkpointid}": "checkpoint_detail",
    "/jobs/{jobid}/checkpoints/details/{checkpointid}/subtasks/{vertexid}": "checkpoint_subtasks",
    "/jobs/{jobid}/resource-requirements": "resreq",
    "/jobs/{jobid}/vertices/{vertexid}": "vertex0",
    "/jobs/{jobid}/vertices/{vertexid}/backpressure": "vertex0_bp",
    "/jobs/{jobid}/vertices/{vertexid}/taskmanagers": "vertex0_tm",
    "/jobs/{jobid}/vertices/{vertexid}/watermarks": "vertex1_wm",
    "/jobs/{jobid}/vertices/{vertexid}/subtasktimes": "subtasktimes",
    "/jobs/{jobid}/metrics": "metrics",
    "/jars": "jars",
    "/taskmanagers": "taskmanagers",
    "/taskmanagers/{taskmanagerid}": "taskmanager",
    "/jobmanager/metrics": "jobmanager_metrics",
    "/overview": "overview",
    "/config": "config",
}


async def _faults(world: FlinkWorld, method: str, path: str, status: int, shape: str) -> list[str]:
    """What is wrong with the answer to a documented operation."""
    prefix = "" if len(path) % 2 else "/v1"
    ids = dict(world.ids)
    if path == "/jobs/{jobid}/checkpoints/{triggerid}":
        world.ids["triggerid"] = "c" * 32
    elif path == "/jobs/{jobid}/savepoints/{triggerid}":
        asked = await world.ask("POST", "/jobs/{jobid}/savepoints")
        world.ids["triggerid"] = asked.json()["request-id"]
    elif path == "/savepoint-disposal/{triggerid}":
        asked = await world.ask("POST", "/savepoint-disposal")
        world.ids["triggerid"] = asked.json()["request-id"]
    answer = await world.ask(method, path, prefix)
    world.ids.update(ids)
    at, said = f"{method} {path}", answer.json()
    expected = REFUSED.get((method, path)) or OTHER_STATUS.get((method, path), status)
    if answer.status_code != expected:
        return [f"{at}: {answer.status_code} {answer.text[:200]}"]
    if (method, path) in REFUSED:
        return [] if list(said) == ["errors"] and said["errors"] else [f"{at}: {said}"]
    found = breaches(shape, said, at)
    if method == "GET" and path in RECORDINGS:
        found += differences(recorded(RECORDINGS[path]), said, at)
    return found


async def test_every_documented_operation_answers_as_flink_does(cluster: Cluster) -> None:
    world = await a_world(cluster)
    turns = ["GET", "POST", "PATCH", "PUT", "DELETE"]
    order = sorted(
        OPERATIONS, key=lambda one: (one[1] in LAST and one[0] != "GET", turns.index(one[0]))
    )

    found = [fault for one in order for fault in await _faults(world, *one)]

    assert len(OPERATIONS) == 80
    assert not found, "\n".join(found)


async def test_metrics_have_flinks_names_and_are_aggregated_as_flink_does(cluster: Cluster) -> None:
    world = await a_world(cluster)
    task = f"/jobs/{world.job}/vertices/{world.ids['vertexid']}"
    names = {one["id"] for one in recorded("metrics")}

    assert names <= {one["id"] for one in await cluster.get(f"/jobs/{world.job}/metrics")}
    one = await cluster.get(f"{task}/subtasks/1/metrics?get=numRecordsIn,nothing")
    assert one == [{"id": "numRecordsIn", "value": "200"}]
    [both] = await cluster.get(f"{task}/subtasks/metrics?get=numRecordsIn&subtasks=0-1")
    assert both == {"id": "numRecordsIn", "min": 100, "max": 200, "avg": 150, "sum": 300} | {
        "skew": pytest.approx(33.333, abs=0.001)
    }
    assert await cluster.get(f"{task}/subtasks/metrics?get=numRecordsIn,nothing") == []
    [busy] = await cluster.get(f"{task}/subtasks/metrics?get=busyTimeMsPerSecond&agg=max")
    assert busy == {"id": "busyTimeMsPerSecond", "max": 250.0}
    source = (await cluster.get(f"/jobs/{world.job}"))["vertices"][0]["id"]
    pending = "Source__bids.pendingRecords"
    [backlog] = await cluster.get(
        f"/jobs/{world.job}/vertices/{source}/subtasks/metrics?get={pending}&agg=sum"
    )
    assert backlog == {"id": pending, "sum": 5.0}
    [used] = await cluster.get("/taskmanagers/metrics?get=Status.JVM.Memory.Heap.Used&agg=max")
    assert used["max"] == 100_000_000
    refused = await cluster.http.get("/taskmanagers/metrics?get=x&agg=median")
    assert (refused.status_code, list(refused.json())) == (400, ["errors"])


@pytest.mark.parametrize(
    ("recording", "path", "status"),
    [
        ("error_bad_job_id", "/v1/jobs/xyz", 400),
        ("error_job_not_found", "/v1/jobs/00000000000000000000000000000000", 404),
        ("error_no_route", "/nothing", 404),
        ("error_job_not_found", f"/v1/jobs/{'0' * 32}/status", 404),
        ("error_job_not_found", f"/jobs/{'0' * 32}/checkpoints/{'0' * 32}", 404),
    ],
)
async def test_errors_have_flinks_shape(
    cluster: Cluster, recording: str, path: str, status: int
) -> None:
    answer = await cluster.http.get(path)

    assert answer.status_code == status
    assert differences(recorded(recording), answer.json()) == []
    assert answer.json().keys() == {"errors"}


async def test_a_problem_is_sent_where_it_is_asked_for(cluster: Cluster) -> None:
    path = f"/v1/jobs/{'0' * 32}/status"

    problem = await cluster.http.get(path, headers={"Accept": "application/problem+json"})
    either = await cluster.http.get(path, headers={"Accept": "application/problem+json, */*"})

    assert problem.headers["content-type"] == "application/problem+json"
    assert problem.json()["type"] == "/problems/JobNotFound"
    assert list(either.json()) == ["errors"]


async def test_the_words_for_states_are_flinks(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    before = await cluster.get(f"/v1/jobs/{job}")
    await cluster.http.patch(f"/v1/jobs/{job}?mode=cancel")
    during = await cluster.get(f"/v1/jobs/{job}")
    await runner.say("cancelled", detail="")
    after = await cluster.get(f"/v1/jobs/{job}")

    assert [one["state"] for one in (before, during, after)] == [
        "RUNNING",
        "CANCELLING",
        "CANCELED",
    ]
    assert set(after["timestamps"]) == set(recorded("job")["timestamps"])
    assert after["timestamps"]["CANCELED"] > 0
    assert {vertex["status"] for vertex in after["vertices"]} == {"CANCELED"}


async def test_a_vertex_id_in_a_checkpoint_is_that_of_the_job(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    await cluster.http.post(f"/v1/jobs/{job}/checkpoints")
    await runner.ack(1, *EVERYONE)

    vertices = {one["id"] for one in (await cluster.get(f"/v1/jobs/{job}"))["vertices"]}
    detail = await cluster.get(f"/v1/jobs/{job}/checkpoints/details/1")

    assert set(detail["tasks"]) == vertices
    counted = sum(task["num_subtasks"] for task in detail["tasks"].values())
    assert counted == detail["num_subtasks"] == 4


async def test_a_checkpoint_is_asked_for_and_polled_as_flinks_clients_do(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    mine = {"checkpointType": "FULL", "triggerId": "a" * 32}
    first = await cluster.http.post(f"/jobs/{job}/checkpoints", json=mine)
    again = await cluster.http.post(f"/jobs/{job}/checkpoints", json=mine)
    poll = f"/jobs/{job}/checkpoints/{'a' * 32}"

    assert first.json() == again.json() == {"number": 1, "request-id": "a" * 32}
    under_way = {"status": {"id": "IN_PROGRESS"}, "operation": None}
    assert await cluster.get(poll) == under_way
    await runner.ack(1, *EVERYONE)
    done = {"status": {"id": "COMPLETED"}, "operation": {"checkpointId": 1}}
    assert await cluster.get(poll) == done
    assert (await cluster.get(f"/jobs/{job}/checkpoints/1"))["acks"]
    own = (await cluster.http.post(f"/jobs/{job}/checkpoints")).json()
    await runner.decline(own["number"])
    failed = await cluster.get(f"/jobs/{job}/checkpoints/{own['request-id']}")
    assert "no space left" in failed["operation"]["failureCause"]["stack-trace"]


async def test_the_reason_of_a_failure_is_a_java_object_with_our_message(cluster: Cluster) -> None:
    world = await a_world(cluster)

    told = await cluster.get(f"/jobs/{world.failed}/execution-result")
    running = await cluster.get(f"/jobs/{world.job}/execution-result")
    ended = await cluster.get(f"/jobs/{world.ended}/execution-result")

    result = told["job-execution-result"]
    assert breaches("ref:JobExecutionResultResponseBody", told) == []
    assert result["application-status"] == "FAILED"
    java = base64.b64decode(result["failure-cause"]["serialized-throwable"])
    assert java.startswith(b"\xac\xed\x00\x05sr\x00)org.apache.flink.util.SerializedThrowable")
    assert b"no such column" in java
    assert running == {"status": {"id": "IN_PROGRESS"}}
    assert ended["job-execution-result"]["application-status"] == "SUCCEEDED"


def test_the_documentation_lists_every_documented_operation() -> None:
    text = (Path(__file__).parents[2] / "docs/flink-rest-api.md").read_text()
    rows = re.findall(r"^\| (\d+) \| (\w+) \| `(\S+)` \| (\w[\w ]*) \|(.*)\|$", text, re.MULTILINE)
    told = {(method, path): standing for _, method, path, standing, _ in rows}

    assert set(told) == {(method, path) for method, path, _, _ in OPERATIONS}
    assert set(told.values()) == {"full", "partial", "not applicable"}
    assert {one for one, standing in told.items() if standing == "not applicable"} >= set(REFUSED)
    assert all(told[one] != "full" for one in REFUSED)
    assert all(remark.strip() for *_, standing, remark in rows if standing != "full")


def test_the_compact_document_finds_what_clients_trip_over() -> None:
    job: dict[str, Any] = {"jid": "0" * 32, "state": "RUNNING", "schedulerType": "Headgate"}

    found = breaches("ref:JobDetails", job)

    assert ".schedulerType is 'Headgate', not one of Default,Adaptive,AdaptiveBatch" in found
    assert ".duration is missing" in found
    assert breaches("ref:JobStatusInfo", json.loads('{"status": "running"}')) != []
