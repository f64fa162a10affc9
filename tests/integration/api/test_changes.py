"""Rescale and upgrade through the API, with a runner played in the words of the protocol."""

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from tests.integration.api.test_savepoints import acked, last_directive
from tests.support.builders import a_document, a_document_with
from tests.support.cluster import EVERYONE, Cluster, PlayedRunner

pytestmark = pytest.mark.anyio
AT_FOUR = (("bids", 0, "offsets"), *(("revenue", n, "state") for n in range(4)), ("out", 0, "sink"))


async def rescale(cluster: Cluster, job: str, parallelism: int, **params: Any) -> str:
    answer = await cluster.http.patch(
        f"/v1/jobs/{job}/rescaling", params={"parallelism": parallelism, **params}
    )
    assert answer.status_code == 202, answer.text
    return str(answer.json()["request-id"])


async def stopped(runner: PlayedRunner) -> dict[str, Any]:
    """The runner does what the stop asks for, and stays."""
    stop = await last_directive(runner)
    assert (stop["kind"], stop["keep_runner"]) == ("stop", True)
    assert await acked(runner, stop["checkpoint"]) == "completed"
    await runner.say("stopped", savepoint=stop["savepoint"]["id"])
    return stop


async def proved(cluster: Cluster, runner: PlayedRunner, number: int, *subtasks: Any) -> str:
    """The changed job commits a batch and completes the checkpoint that waits for it."""
    await runner.beat({"region": "out", "batch": 5, "batches": 1, "is_active": True})
    await cluster.timer.run_once()
    return await runner.ack(number, *subtasks)


def next_attempt(runner: PlayedRunner) -> PlayedRunner:
    return replace(runner, attempt=runner.attempt + 1)


async def operation_of(cluster: Cluster, operation: str) -> dict[str, Any]:
    found: dict[str, Any] = await cluster.get(f"/v1/operations/{operation}")
    return found


async def savepoint_of(cluster: Cluster, job: str) -> dict[str, Any]:
    [found] = [one for one in (await cluster.get("/v1/savepoints"))["items"] if one["job"] == job]
    return dict(found)


async def test_a_rescale_goes_on_in_the_same_runner_with_another_parallelism(
    cluster: Cluster,
) -> None:
    job, runner = await cluster.running(a_document(max_parallelism=8))
    operation = await rescale(cluster, job, 4)
    stop = await stopped(runner)

    second = next_attempt(runner)
    run = await last_directive(second)
    await second.say("prepared", repartitioned=[])
    await second.say("running", restored=[])
    assert await proved(cluster, second, 2, *AT_FOUR) == "completed"

    assert (run["kind"], run["parallelism"], run["base_attempt"]) == ("run", 4, 2)
    assert run["restore_point"]["root"] == stop["savepoint"]["directory"]
    done = await operation_of(cluster, operation)
    assert (done["kind"], done["status"]) == ("rescale", "completed")
    names = ["savepoint", "stop", "repartition", "start", "first_batch"]
    assert [phase["name"] for phase in done["phases"]] == names
    assert all(phase["ended_at"] for phase in done["phases"])
    assert done["result"]["parallelism"] == {"from": 2, "to": 4}
    assert done["result"]["moves"] == [
        {"vertex": "revenue", "from": 0, "to": 2, "key_groups": [2, 6]},
        {"vertex": "revenue", "from": 1, "to": 3, "key_groups": [3, 7]},
    ]
    groups = await cluster.get(f"/v1/jobs/{job}/key-groups")
    owned = {s["subtask"]: s["key_groups"] for s in groups["vertices"][0]["subtasks"]}
    assert owned == {0: [0, 4], 1: [1, 5], 2: [2, 6], 3: [3, 7]}
    assert await cluster.state(job) == "RUNNING"
    assert len(cluster.bench.secrets) == 1
    flink = await cluster.get(f"/v1/jobs/{job}/rescaling/{operation}")
    assert flink == {"status": {"id": "COMPLETED"}, "operation": {}}


async def test_the_savepoint_of_a_rescale_goes_when_the_job_stands_on_its_own(
    cluster: Cluster,
) -> None:
    job, runner = await cluster.running(a_document(max_parallelism=8))
    await rescale(cluster, job, 4)
    await stopped(runner)
    before = await savepoint_of(cluster, job)
    second = next_attempt(runner)
    await second.say("running", restored=[])
    await proved(cluster, second, 2, *AT_FOUR)

    after = await cluster.get(f"/v1/savepoints/{before['id']}")
    assert (before["status"], after["status"]) == ("completed", "disposed")


@pytest.mark.parametrize("when", ["repartition", "start", "first_batch"])
@pytest.mark.parametrize("how", ["failure", "kill"])
async def test_a_rescale_that_fails_after_the_stop_is_rolled_back(
    cluster: Cluster, when: str, how: str
) -> None:
    job, runner = await cluster.running(a_document(max_parallelism=8, restart={"strategy": "none"}))
    operation = await rescale(cluster, job, 4)
    stop = await stopped(runner)
    second = next_attempt(runner)
    if when != "repartition":
        await second.say("prepared", repartitioned=[])
    if when == "first_batch":
        await second.say("running", restored=[])

    if how == "failure":
        await second.fail("no memory", restartable=False)
    else:
        await cluster.exit(second)

    third = await cluster.runner(job, 3)
    assert third.id != second.id
    await third.register()
    run = (await third.directives())[0]["body"]
    assert (run["parallelism"], run["base_attempt"]) == (2, 3)
    assert run["restore_point"]["root"] == stop["savepoint"]["directory"]
    await third.run()
    done = await operation_of(cluster, operation)
    assert (done["status"], done["phases"][-1]["name"]) == ("rolled_back", when)
    assert done["error"]
    assert await cluster.state(job) == "RUNNING"
    groups = await cluster.get(f"/v1/jobs/{job}/key-groups")
    assert groups["parallelism"] == 2
    assert len(groups["vertices"][0]["subtasks"]) == 2


async def test_a_runner_that_dies_with_its_savepoint_complete_is_replaced(
    cluster: Cluster,
) -> None:
    job, runner = await cluster.running(a_document(max_parallelism=8))
    operation = await rescale(cluster, job, 4)
    await acked(runner, 1)

    await cluster.exit(runner)

    second = await cluster.runner(job, 2)
    assert second.id != runner.id
    await second.run()
    await proved(cluster, second, 2, *AT_FOUR)
    assert (await operation_of(cluster, operation))["status"] == "completed"


async def test_a_rescale_whose_savepoint_fails_changes_nothing(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document(max_parallelism=8))
    operation = await rescale(cluster, job, 4)

    await runner.decline(1)
    await runner.fail("the stop failed")

    assert (await operation_of(cluster, operation))["status"] == "failed"
    assert (await cluster.get(f"/v1/jobs/{job}/graph"))["parallelism"] == 2
    assert await cluster.state(job) == "RESTARTING"


async def test_an_attempt_that_hangs_is_rolled_back_when_its_time_is_over(
    cluster: Cluster,
) -> None:
    document = a_document(max_parallelism=8, checkpointing={"timeout": "60s"})
    job, runner = await cluster.running(document)
    operation = await rescale(cluster, job, 4)
    await stopped(runner)

    cluster.clock.pass_time(61)
    await runner.beat()
    await cluster.reaper.run_once()

    done = await operation_of(cluster, operation)
    assert done["status"] == "rolled_back"
    assert "in phase repartition for 61 s" in done["error"]


async def test_a_first_checkpoint_that_fails_takes_the_change_back(cluster: Cluster) -> None:
    document = a_document(max_parallelism=8, checkpointing={"tolerable_failures": 5})
    job, runner = await cluster.running(document)
    operation = await rescale(cluster, job, 4)
    await stopped(runner)
    second = next_attempt(runner)
    await second.say("running", restored=[])
    await cluster.timer.run_once()

    await second.decline(2)

    assert (await operation_of(cluster, operation))["status"] == "rolled_back"


async def test_a_checkpoint_before_the_first_batch_proves_nothing(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document(max_parallelism=8))
    operation = await rescale(cluster, job, 4)
    await stopped(runner)
    second = next_attempt(runner)
    await second.say("running", restored=[])
    await second.beat({"region": "out", "batch": 4, "batches": 0, "is_active": True})
    await cluster.timer.run_once()
    # complete, and not said so: the job may yet be rolled back, and its output stays held
    assert await second.ack(2, *AT_FOUR) == "recorded"
    waiting = await operation_of(cluster, operation)

    cluster.clock.pass_time(1)
    await second.beat({"region": "out", "batch": 4, "is_idle": True, "is_active": True})
    await cluster.timer.run_once()
    assert await second.ack(3, *AT_FOUR) == "completed"

    assert (waiting["status"], waiting["phases"][-1]["name"]) == ("in_progress", "first_batch")
    assert (await operation_of(cluster, operation))["status"] == "completed"


async def test_a_cancel_in_the_middle_of_a_rescale_ends_the_job(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document(max_parallelism=8))
    operation = await rescale(cluster, job, 4)
    await stopped(runner)
    second = next_attempt(runner)

    await cluster.http.patch(f"/v1/jobs/{job}")
    await second.say("cancelled", detail="before the queries started")

    assert await cluster.state(job) == "CANCELED"
    done = await operation_of(cluster, operation)
    assert (done["status"], done["error"]) == ("failed", "the job was cancelled")


async def test_what_cannot_be_is_refused_and_nothing_stops(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document(max_parallelism=12))
    told = len(await runner.directives())

    wrong = await cluster.http.patch(f"/v1/jobs/{job}/rescaling", params={"parallelism": 5})
    same = await cluster.http.patch(f"/v1/jobs/{job}/rescaling", params={"parallelism": 2})

    assert wrong.status_code == 422
    assert "use one of 1, 2, 3, 4, 6, 12" in wrong.json()["errors"][0]
    assert same.status_code == 409
    assert len(await runner.directives()) == told


async def test_a_rescale_repeated_with_its_id_is_one_and_others_wait(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document(max_parallelism=8))
    mine = uuid4().hex

    assert await rescale(cluster, job, 4, triggerId=mine) == mine
    assert await rescale(cluster, job, 4, triggerId=mine) == mine

    stops = [d for d in await runner.directives() if d["body"]["kind"] == "stop"]
    assert len(stops) == 1
    other = await cluster.http.patch(
        f"/v1/jobs/{job}/rescaling", params={"parallelism": 8, "triggerId": mine}
    )
    second = await cluster.http.patch(f"/v1/jobs/{job}/rescaling", params={"parallelism": 8})
    savepoint = await cluster.http.post(f"/v1/jobs/{job}/savepoints", json={})
    assert [one.status_code for one in (other, second, savepoint)] == [409, 409, 409]
    assert "is being rescaled already" in second.json()["errors"][0]


async def test_what_the_runner_repeats_of_its_last_attempt_changes_nothing(
    cluster: Cluster,
) -> None:
    job, runner = await cluster.running(a_document(max_parallelism=8))
    await rescale(cluster, job, 4)
    stop = await stopped(runner)

    again = await runner.say("stopped", savepoint=stop["savepoint"]["id"])
    beat = await runner.beat({"region": "out", "batch": 3, "is_active": False})

    assert (again["superseded"], beat["superseded"]) == (False, False)
    status = await cluster.get(f"/v1/jobs/{job}/status")
    assert (status["attempt"], status["state"]) == (2, "starting")


async def test_resource_requirements_are_another_way_to_rescale(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document(max_parallelism=8))
    path = f"/v1/jobs/{job}/resource-requirements"
    wanted = await cluster.get(path)
    for one in wanted.values():
        one["parallelism"]["upperBound"] = 4

    answer = await cluster.http.put(path, json=wanted)

    assert answer.status_code == 200, answer.text
    assert (await last_directive(runner))["kind"] == "stop"
    [operation] = (await cluster.get(f"/v1/jobs/{job}/operations"))["items"]
    assert operation["kind"] == "rescale"


async def test_requirements_that_no_job_can_have_are_refused(cluster: Cluster) -> None:
    job, _ = await cluster.running(a_document(max_parallelism=8))
    path = f"/v1/jobs/{job}/resource-requirements"

    unknown = await cluster.http.put(path, json={"0" * 32: {"parallelism": {"upperBound": 4}}})
    nothing = await cluster.http.put(path, json={})

    assert "the job has no task" in unknown.json()["errors"][0]
    assert "no bounds of a task whose parallelism can change" in nothing.json()["errors"][0]


async def test_different_bounds_of_tasks_rescale_to_the_largest_that_is_possible(
    cluster: Cluster,
) -> None:
    job, runner = await cluster.running(a_document(max_parallelism=8))
    path = f"/v1/jobs/{job}/resource-requirements"
    wanted = await cluster.get(path)
    for bound, one in zip((1, 7), wanted.values(), strict=True):
        one["parallelism"]["upperBound"] = bound
    upside_down = {name: {"parallelism": {"lowerBound": 4, "upperBound": 2}} for name in wanted}

    refused = await cluster.http.put(path, json=upside_down)
    answer = await cluster.http.put(path, json=wanted)

    assert "lowerBound is greater than upperBound" in refused.json()["errors"][0]
    assert answer.status_code == 200, answer.text
    await stopped(runner)
    run = await last_directive(next_attempt(runner))
    assert (run["kind"], run["parallelism"]) == ("run", 4)


async def upgrade(cluster: Cluster, job: str, document: dict[str, Any], **params: Any) -> Any:
    return await cluster.http.post(f"/v1/jobs/{job}/upgrade", json=document, params=params)


async def test_an_upgrade_goes_on_with_the_new_graph(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    new = a_document_with("big", where="price > 500")
    answer = await upgrade(cluster, job, new)
    operation = answer.json()["operation"]
    await stopped(runner)

    second = next_attempt(runner)
    run = await last_directive(second)
    await second.say("running", restored=[])
    await proved(cluster, second, 2, *EVERYONE)

    assert run["graph"] == new
    done = await operation_of(cluster, operation)
    names = ["savepoint", "stop", "restore", "start", "first_checkpoint"]
    assert (done["status"], [phase["name"] for phase in done["phases"]]) == ("completed", names)
    graph = await cluster.get(f"/v1/jobs/{job}/graph")
    assert (graph["graph"], graph["revision"]) == (new, 2)
    savepoint = await savepoint_of(cluster, job)
    assert (savepoint["status"], savepoint["labels"]) == ("completed", {"taken_by": "upgrade"})


async def test_an_upgrade_that_does_not_come_up_goes_back_to_the_old_graph(
    cluster: Cluster,
) -> None:
    old = a_document()
    job, runner = await cluster.running(old)
    answer = await upgrade(cluster, job, a_document_with("big", where="no_such_column > 500"))
    await stopped(runner)

    await next_attempt(runner).fail("vertex big: no such column", restartable=False)

    third = await cluster.runner(job, 3)
    run = (await third.directives())[0]["body"]
    assert run["graph"] == old
    done = await operation_of(cluster, answer.json()["operation"])
    assert (done["status"], done["error"]) == ("rolled_back", "vertex big: no such column")
    graph = await cluster.get(f"/v1/jobs/{job}/graph")
    assert (graph["graph"], graph["revision"]) == (old, 1)


async def test_a_plan_says_what_would_change_and_stores_nothing(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    told = len(await runner.directives())

    answer = await upgrade(cluster, job, a_document_with("big", where="price > 500"), dry_run=True)

    assert answer.status_code == 200
    plan = answer.json()
    assert plan["verdict"] == "compatible"
    assert plan["changes"] == [
        {"vertex": "big", "field": "where", "before": "price > 100", "after": "price > 500"}
    ]
    assert plan["state"] == [{"region": "out", "vertex": "revenue", "fate": "kept"}]
    assert len(await runner.directives()) == told


async def test_an_upgrade_that_would_lose_state_is_not_begun(cluster: Cluster) -> None:
    job, _ = await cluster.running(a_document())
    without = a_document()
    without["vertices"] = [v for v in without["vertices"] if v["id"] != "revenue"]
    without["vertices"][-1]["inputs"] = ["big"]

    refused = await upgrade(cluster, job, without)
    meant = await upgrade(cluster, job, without, allow_non_restored_state=True)

    assert refused.status_code == 422
    assert "the state of vertex revenue would be left behind" in refused.json()["detail"]
    assert meant.status_code == 202


async def test_an_upgrade_repeated_with_its_key_is_one(cluster: Cluster) -> None:
    job, _ = await cluster.running(a_document())
    new = a_document_with("big", where="price > 500")
    headers = {"Idempotency-Key": "once"}
    path = f"/v1/jobs/{job}/upgrade"

    first = await cluster.http.post(path, json=new, headers=headers)
    second = await cluster.http.post(path, json=new, headers=headers)

    assert first.json() == second.json()


META = {
    "owner": "payments",
    "description": "Revenue of each auction.",
    "runbook": "https://wiki.example.org/revenue",
    "labels": {"tier": "1"},
}


async def test_a_change_of_meta_alone_stops_nothing(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    told = len(await runner.directives())
    new = a_document(meta=META)

    plan = (await upgrade(cluster, job, new, dry_run=True)).json()
    answer = await upgrade(cluster, job, new)

    assert (plan["verdict"], plan["needs_restart"]) == ("compatible", False)
    done = await operation_of(cluster, answer.json()["operation"])
    assert (done["status"], [one["name"] for one in done["phases"]]) == ("completed", ["meta"])
    assert done["result"]["savepoint"] is None
    assert done["result"]["graph_revision"] == {"from": 1, "to": 2}
    graph = await cluster.get(f"/v1/jobs/{job}/graph")
    assert (graph["graph"], graph["revision"]) == (new, 2)
    status = await cluster.get(f"/v1/jobs/{job}/status")
    assert (status["state"], status["attempt"], status["meta"]) == ("running", 1, META)
    assert len(await runner.directives()) == told
    saved = (await cluster.get("/v1/savepoints"))["items"]
    assert [one for one in saved if one["job"] == job] == []
    [listed] = (await cluster.get(f"/v1/jobs/{job}/operations"))["items"]
    assert listed == done
    history = (await cluster.get(f"/v1/jobs/{job}/history"))["items"]
    [ended] = [one for one in history if one["kind"] == "upgrade_completed"]
    assert ended["cause"] == "only meta changed, so the job runs on: revision 2"


async def test_revisions_say_what_each_change_changed(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    await upgrade(cluster, job, a_document(meta=META))
    failed = await upgrade(cluster, job, {**a_document_with("big", where="x > 1"), "meta": META})
    assert failed.status_code == 202
    under_way = await cluster.get(f"/v1/jobs/{job}/revisions")
    await stopped(runner)
    await next_attempt(runner).fail("no such column", restartable=False)

    rolled_back = await cluster.get(f"/v1/jobs/{job}/revisions")

    assert under_way == rolled_back
    assert (rolled_back["revision"], rolled_back["parallelism"]) == (2, 2)
    [found] = rolled_back["items"]
    assert (found["kind"], found["needs_restart"]) == ("upgrade", False)
    assert found["revision"] == {"from": 1, "to": 2}
    assert found["changes"] == [{"vertex": None, "field": "meta", "before": None, "after": META}]


async def test_meta_changes_while_a_job_restarts_and_not_after_its_end(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    await runner.fail("no more disk", restartable=True)

    while_down = await upgrade(cluster, job, a_document(meta=META))
    await cluster.http.patch(f"/v1/jobs/{job}")
    after_end = await upgrade(cluster, job, a_document(meta={"owner": "nobody"}))

    assert while_down.status_code == 202
    assert (await cluster.get(f"/v1/jobs/{job}/status"))["meta"]["owner"] == "payments"
    assert after_end.status_code == 409
    assert "stays as it is" in after_end.json()["detail"]


async def test_meta_waits_for_the_end_of_another_change(cluster: Cluster) -> None:
    job, _ = await cluster.running(a_document(max_parallelism=8))
    await rescale(cluster, job, 4)

    refused = await upgrade(cluster, job, a_document(max_parallelism=8, meta=META))

    assert refused.status_code == 409
    assert "is being rescaled already" in refused.json()["detail"]


async def test_the_next_attempt_has_the_revision_with_the_new_meta(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    await upgrade(cluster, job, a_document(meta=META))
    operation = await rescale(cluster, job, 4)
    await stopped(runner)

    await next_attempt(runner).fail("no such partition", restartable=False)

    done = await operation_of(cluster, operation)
    assert done["status"] == "rolled_back"
    graph = await cluster.get(f"/v1/jobs/{job}/graph")
    assert (graph["graph"], graph["revision"]) == (a_document(meta=META), 2)
