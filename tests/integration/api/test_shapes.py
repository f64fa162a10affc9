"""Every route answers what the OpenAPI document says.

The client of a `Cluster` looks at every answer that any test gets. Here all routes are asked once,
with a job that has as much to tell as a job can have, and the look itself is tried.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest

from jobmanager.core.ids import RegionId
from jobmanager.core.snapshots import manifest as manifests
from jobmanager.protocol.inspection import (
    KeyGroupCount,
    KeyGroupCounts,
    Rows,
    ScriptDescribed,
    ScriptQuery,
    ScriptQuerySink,
    SinkColumn,
    SinkRows,
    StateColumn,
    StateDescription,
    StateRow,
    States,
)
from tests.conformance.flink_document import OPERATIONS
from tests.conformance.flink_world import a_world
from tests.integration.api.test_adoption import adopt
from tests.integration.api.test_changes import next_attempt, proved, rescale, stopped
from tests.integration.api.test_state import a_region, complete
from tests.support.answering_server import an_answering_server
from tests.support.builders import a_document, a_document_with
from tests.support.cluster import EVERYONE, Cluster, PlayedRunner
from tests.support.contract import BrokenContract, check, operations, promised, template_of

pytestmark = pytest.mark.anyio
REGION = {
    "region": "out",
    "batch": 3,
    "is_active": True,
    "watermark": "2026-11-16T11:59:58Z",
    "progressed_at": "2026-11-16T12:00:00.5Z",
    "batch_started_at": "2026-11-16T12:00:00Z",
    "offsets": {"bids": {"0": 45}},
    "accumulators": {"big": {"seen": {"merge": "sum", "value": 7}}},
    "loops": [
        {"vertex": "big", "iteration": 1, "max_iterations": 2, "rows": 3, "duration_ms": 4}
        | {"is_converged": False}
    ],
    "phases_ms": {"addBatch": 3},
    "sources": [{"vertex": "bids", "backlog_rows": 5}],
    "operators": [{"vertex": "revenue", "operator": "stateStoreSave"}],
}
RESTORED = {"region": "out", "origin": "checkpoint", "batch": 1, "source": 1, "why": "it was there"}
BY_TEXT = (
    *("/metrics", "/v1/events", "/v1/jobs/{jobid}/events", "/v1/jobs/{jobid}/logs"),
    *("/v1/jobmanager/log", "/v1/jobmanager/stdout", "/v1/jobmanager/logs/{logname}"),
    "/v1/taskmanagers/{taskmanagerid}/log",
    "/v1/taskmanagers/{taskmanagerid}/stdout",
    "/v1/taskmanagers/{taskmanagerid}/logs/{logname}",
)
"""They answer with text, not with JSON."""
ABSENT = {
    ("delete", "/v1/cluster"),
    ("delete", "/v1/datasets/{datasetid}"),
    ("get", "/v1/datasets/delete/{triggerid}"),
    ("post", "/v1/jobmanager/profiler"),
    ("post", "/v1/taskmanagers/{taskmanagerid}/profiler"),
}
"""Routes of Flink's about what Headgate has not: they only refuse."""


async def test_every_route_answers_what_the_document_says(cluster: Cluster) -> None:
    asked: set[tuple[str, str | None]] = set()

    async def note(answer: httpx.Response) -> None:
        if answer.is_success:
            method = answer.request.method
            asked.add((method.lower(), template_of(method, answer.request.url.path)))

    cluster.http.event_hooks["response"].append(note)
    try:
        job, runner = await _a_job_with_much_to_tell(cluster)
        await _ask_about_the_cluster(cluster)
        await _ask_about_the_job(cluster, job)
        await _ask_about_state(cluster, f"/v1/jobs/{job}")
        column = SinkColumn(name="auction", type="bigint")
        written = SinkRows(columns=[column], rows=[{"auction": 5}], origin="batch 1")
        cluster.inspector.answers = [written]
        await cluster.get(f"/v1/jobs/{job}/sinks/out/rows")
        await _ask_about_a_savepoint(cluster)
        await _ask_about_artifacts(cluster)
        await _ask_flinks_other_operations(cluster)
        await _change(cluster, job, runner)
    finally:
        cluster.http.event_hooks["response"].remove(note)

    known = {(method, path) for method, path, _ in operations() if path not in BY_TEXT}
    assert known - asked - ABSENT == set()


async def _ask_flinks_other_operations(cluster: Cluster) -> None:
    """All that Flink documents, and what it has beside that."""
    world = await a_world(cluster)
    for path in ("/jars/{jarid}/plan", "/jobmanager/profiler"):
        await world.ask("GET", path)
    for method, path, _, _ in sorted(OPERATIONS, key=lambda one: one[0] == "DELETE"):
        await world.ask(method, path)
    await world.ask("GET", "/taskmanagers/{taskmanagerid}/profiler")
    for what in ("cancel", "stop"):
        job, _ = await cluster.running(a_document(name=what))
        assert (await cluster.http.get(f"/v1/jobs/{job}/yarn-{what}")).status_code == 202


async def _a_job_with_much_to_tell(cluster: Cluster) -> tuple[str, PlayedRunner]:
    """It failed once, was restored, has a checkpoint, one that failed, and progress."""
    job, first = await cluster.running(a_document(max_parallelism=8))
    await complete(cluster, job, first)
    await first.fail("no space left")
    cluster.clock.pass_time(1)
    await cluster.reaper.run_once()
    runner = await cluster.runner(job, attempt=2)
    assert (await runner.register()).status_code == 200
    await runner.say("running", restored=[RESTORED])
    await runner.beat(REGION)
    await _post(cluster, f"/v1/jobs/{job}/checkpoints")
    assert await runner.decline(2) == "recorded"
    return job, runner


async def _ask_about_the_cluster(cluster: Cluster) -> None:
    for path in ("/healthz", "/readyz", "/v1/overview", "/v1/config", "/v1/jobs", "/v1/inspector"):
        await cluster.get(path)
    for path in ("/v1/jobs/overview", "/v1/jobs/summary", "/v1/runners", "/v1/jobmanagers"):
        await cluster.get(path)
    await _post(cluster, "/v1/jobs", json=a_document(), params={"dry_run": True})
    await _post(cluster, "/v1/gc", params={"dry_run": True})
    await _post(cluster, "/v1/tokens", json={"name": "shapes", "role": "viewer"})
    for path in ("/v1/tokens", "/v1/whoami", "/v1/audit"):
        await cluster.get(path)
    assert (await cluster.http.delete("/v1/tokens/shapes")).status_code == 200
    await _ask_about_webhooks(cluster)


async def _ask_about_webhooks(cluster: Cluster) -> None:
    with an_answering_server() as receiver:
        receiver.of["POST /"] = (200, "taken")
        rule = {"name": "shapes", "url": receiver.url, "on": ["restart"]}
        await _post(cluster, "/v1/webhooks", json=rule)
        await _post(cluster, "/v1/webhooks/shapes/test")
    await cluster.get("/v1/webhooks")
    await cluster.get("/v1/webhooks/shapes/deliveries")
    assert (await cluster.http.delete("/v1/webhooks/shapes")).status_code == 200


async def _ask_about_the_job(cluster: Cluster, job: str) -> None:
    about = f"/v1/jobs/{job}"
    for what in ("", "/plan", "/config", "/exceptions", "/accumulators", "/checkpoints"):
        await cluster.get(f"{about}{what}")
    for what in ("/checkpoints/config", "/checkpoints/details/1", "/checkpoints/1", "/history"):
        await cluster.get(f"{about}{what}")
    for what in ("/graph", "/status", "/key-groups", "/samples", "/resource-requirements"):
        await cluster.get(f"{about}{what}")
    for what in ("/lag", "/revisions"):
        await cluster.get(f"{about}{what}")
    task = (await cluster.get(about))["vertices"][0]["id"]
    await cluster.get(f"{about}/vertices/{task}/accumulators")
    await _post(cluster, f"{about}/checkpoints/1/verify")
    status = await cluster.get(f"{about}/status")
    assert status["region_states"][0]["loops"]
    assert status["restored"] == [RESTORED]
    assert status["last_checkpoint"]["number"] == 1


async def _ask_about_state(cluster: Cluster, owner: str) -> None:
    column = StateColumn(name="auction", type="BIGINT", spark_name="auction")
    described = StateDescription(
        region="out",
        vertex="revenue",
        name="default",
        operator="stateStoreSave",
        subtasks=2,
        key=[column],
        value=[column],
    )
    row = StateRow(key={"auction": 5}, value={"sum": 50}, key_group=1, subtask=1)
    counts = [KeyGroupCount(key_group=1, subtask=1, rows=3, bytes=40)]
    page = Rows(rows=[row], next_subtask=None, next_skip=0)
    cluster.inspector.before_answer = lambda question: None
    cluster.inspector.answers = [
        States(states=[described]),
        page,
        page,
        KeyGroupCounts(max_parallelism=8, groups=counts),
    ]
    for what in ("", "/revenue/default", "/revenue/default/5", "/revenue/default/key-groups"):
        await cluster.get(f"{owner}/state{what}")


async def _ask_about_a_savepoint(cluster: Cluster) -> None:
    made = await adopt(cluster)
    about = f"/v1/savepoints/{made['id']}"
    await cluster.get("/v1/savepoints")
    await cluster.get(about)
    await cluster.http.patch(about, json={"labels": {"why": "a test"}})
    await _post(cluster, f"{about}/verify")
    _give_state(Path(made["path"].removeprefix("file://")) / "manifest.json")
    await _ask_about_state(cluster, about)
    assert (await cluster.http.delete(about)).status_code == 202
    disposed = await adopt(cluster)
    answer = await _post(
        cluster, "/v1/savepoint-disposal", json={"savepoint-path": disposed["path"]}
    )
    await cluster.get(f"/v1/savepoint-disposal/{answer['request-id']}")


def _give_state(path: Path) -> None:
    """The savepoint's manifest says that vertex `revenue` has state."""
    manifest = manifests.from_json(path.read_text())
    region = replace(manifest.regions[RegionId("out")], pointers=a_region(41, "revenue").pointers)
    path.write_text(manifests.to_json(replace(manifest, regions={RegionId("out"): region})))


async def _ask_about_artifacts(cluster: Cluster) -> None:
    content = b"def shape(spark, rows):\n    return rows\n"
    upload = {
        "params": {"name": "s.py"},
        "content": content,
        "headers": {"Content-Type": "application/octet-stream"},
    }
    made = await _post(cluster, "/v1/artifacts", **upload)
    again = await _post(cluster, "/v1/artifacts", **upload)
    assert made == again
    await cluster.get("/v1/artifacts")
    await cluster.get(f"/v1/artifacts/{made['id']}")
    sink = ScriptQuerySink(
        format="console", path=None, options={}, partition_by=[], table=None, function=None
    )
    query = ScriptQuery(
        name="out", sources=["rate"], state=[], output_mode="append", trigger={}, sink=sink
    )
    cluster.inspector.before_answer = lambda question: None
    cluster.inspector.answers = [ScriptDescribed(queries=[query])]
    await _post(cluster, "/v1/scripts/describe", json={"script": made["id"]})
    assert (await cluster.http.delete(f"/v1/artifacts/{made['id']}")).status_code == 200


async def _change(cluster: Cluster, job: str, runner: PlayedRunner) -> None:
    """A rescale that completes, an upgrade, a savepoint, a stop, and a cancel."""
    about = f"/v1/jobs/{job}"
    operation = await rescale(cluster, job, 4)
    await stopped(runner)
    changed = next_attempt(runner)
    await changed.say("running", restored=[])
    await proved(cluster, changed, 4, *EVERYONE, ("revenue", 2, "state"), ("revenue", 3, "state"))
    done = await cluster.get(f"/v1/operations/{operation}")
    assert (done["status"], bool(done["result"]["moves"])) == ("completed", True)
    await cluster.get(f"{about}/operations")
    await cluster.get(f"{about}/rescaling/{operation}")
    await _post(cluster, f"{about}/upgrade", json=a_document(), params={"dry_run": True})
    tasks = await cluster.get(f"{about}/resource-requirements")
    answer = await cluster.http.put(f"{about}/resource-requirements", json=tasks)
    assert answer.status_code == 200, answer.text
    trigger = (await _post(cluster, f"{about}/savepoints", json={}))["request-id"]
    await cluster.get(f"{about}/savepoints/{trigger}")
    for what in ("pause", "resume"):
        assert (await cluster.http.post(f"{about}/{what}")).status_code == 202
    assert (await cluster.http.patch(about)).status_code == 202
    other, _ = await cluster.running(a_document(name="other"))
    await _post(cluster, f"/v1/jobs/{other}/stop", json={})
    third, _ = await cluster.running(a_document())
    new = a_document_with("big", where="price > 500")
    assert "operation" in await _post(cluster, f"/v1/jobs/{third}/upgrade", json=new)


async def _post(cluster: Cluster, path: str, **request: Any) -> Any:
    answer = await cluster.http.post(path, **request)
    assert answer.is_success, answer.text
    return answer.json()


async def test_every_refusal_is_a_problem(cluster: Cluster) -> None:
    nowhere = "0" * 32
    faulty = await cluster.http.post("/v1/jobs", json={"name": "x", "vertices": []})
    asked = [
        await cluster.http.get("/v1/jobs/summary?limit=0"),
        await cluster.http.get(f"/v1/jobs/{nowhere}/status"),
        await cluster.http.get(f"/v1/jobs/{nowhere}"),
        faulty,
    ]

    assert [one.status_code for one in asked] == [400, 404, 404, 422]
    assert faulty.json()["faults"]


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"status": "alive", "more": 1}, "more"),
        ({}, "status"),
        ({"status": None}, "null"),
    ],
)
def test_an_answer_of_another_shape_is_found(broken: dict[str, Any], message: str) -> None:
    with pytest.raises(BrokenContract, match=message):
        check("GET", "/healthz", 200, json.dumps(broken).encode())


def test_a_time_that_is_none_is_found() -> None:
    ready = {"status": "ready", "leader": True, "leader_url": None, "term": 1, "started_at": "now"}
    with pytest.raises(BrokenContract, match="date-time"):
        check("GET", "/readyz", 200, json.dumps(ready).encode())


def test_every_route_says_what_it_answers() -> None:
    """No answer is an object of anything."""
    for method, path, operation in operations():
        promises = operation["responses"]
        assert "default" in promises, (method, path)
        for status, promise in promises.items():
            for kind, content in promise.get("content", {}).items():
                schema = content["schema"]
                named = "$ref" in schema or kind.startswith("text/")
                assert named, (method, path, status, schema)
    jsonschema_rs.meta.validate(promised()["components"]["schemas"]["StatusResponse"])
