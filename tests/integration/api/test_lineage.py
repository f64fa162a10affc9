"""Lineage events of a job's life, at a real HTTP receiver."""

import asyncio
from collections.abc import Iterator

import pytest
from sqlalchemy import text

from jobmanager.loops.deliverer import Deliverer
from jobmanager.loops.lineage_rules import LineageRules
from jobmanager.signals.openlineage import LineageReceiver, receiver_from
from tests.support.answering_server import Answers, an_answering_server
from tests.support.builders import a_document
from tests.support.cluster import Cluster

pytestmark = pytest.mark.anyio


@pytest.fixture
def receiver() -> Iterator[Answers]:
    with an_answering_server() as given:
        given.of["POST /api/v1/lineage"] = (201, "")
        yield given


@pytest.fixture(autouse=True)
async def _nothing_of_other_tests(cluster: Cluster) -> None:
    async with cluster.database.engine.begin() as connection:
        for table in ("signal_cursors", "deliveries", "jobs"):
            await connection.execute(text(f"DELETE FROM {table}"))


def a_receiver(cluster: Cluster, url: str) -> LineageReceiver:
    environment = {
        "OPENLINEAGE_URL": f"{url}/",
        "OPENLINEAGE_API_KEY": "key",
        "OPENLINEAGE_NAMESPACE": "prod",
    }
    found = receiver_from(environment, cluster.app.state.context.webhooks.sender)
    assert found is not None
    assert "key" not in repr(found)
    return found


async def tell(cluster: Cluster, to: LineageReceiver, *, is_off: bool = False) -> None:
    units = cluster.database.unit_of_work
    await LineageRules(units, to.producer, "/data", cluster.clock).run_once()
    webhooks = cluster.app.state.context.webhooks
    send = None if is_off else to.send
    deliverer = Deliverer(units, webhooks, cluster.clock, asyncio.Event(), send)
    await deliverer.run_once()
    while deliverer.under_way:
        await asyncio.gather(*deliverer.under_way.values())
        await deliverer.run_once()


async def test_a_job_is_told_from_its_start_to_its_end(cluster: Cluster, receiver: Answers) -> None:
    to = a_receiver(cluster, receiver.url)
    await tell(cluster, to)
    job, runner = await cluster.running(a_document(name="told"))
    await runner.beat(
        {"region": "out", "batch": 3, "is_active": True, "input_rows": 9, "output_rows": 5}
    )
    await tell(cluster, to)
    cluster.clock.pass_time(300)
    await tell(cluster, to)
    await tell(cluster, to)
    await cluster.http.patch(f"/v1/jobs/{job}?mode=cancel")
    await cluster.dispatch.run_once()
    await runner.say("cancelled", detail="asked for")
    await tell(cluster, to)

    events = [event for _, event in receiver.asked]
    kinds = [event["eventType"] for event in events]
    assert kinds == ["START", "RUNNING", "RUNNING", "ABORT"]
    assert {event["run"]["runId"].replace("-", "") for event in events} == {job}
    assert {event["job"]["namespace"] for event in events} == {"prod"}
    rows = events[2]["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"]
    assert rows == 5
    assert events[0]["outputs"][0]["name"] == "/data/out"
    assert {one["Authorization"] for one in receiver.headers} == {"Bearer key"}
    ids = [one["Headgate-Delivery"] for one in receiver.headers]
    assert len(set(ids)) == 4


async def test_a_failed_job_says_why_and_events_are_tried_again(
    cluster: Cluster, receiver: Answers
) -> None:
    to = a_receiver(cluster, receiver.url)
    await tell(cluster, to)
    _, runner = await cluster.running(a_document(name="failing"))
    await runner.fail("no such column", restartable=False)
    receiver.of["POST /api/v1/lineage"] = [(503, ""), (201, "")]
    await tell(cluster, to)
    assert len(receiver.asked) == 1
    cluster.clock.pass_time(5)
    await tell(cluster, to)

    kinds = [event["eventType"] for _, event in receiver.asked]
    assert kinds == ["START", "START", "RUNNING", "FAIL"]
    message = receiver.asked[-1][1]["run"]["facets"]["errorMessage"]["message"]
    assert "no such column" in message


async def test_what_waits_is_given_up_when_lineage_is_switched_off(
    cluster: Cluster, receiver: Answers
) -> None:
    to = a_receiver(cluster, receiver.url)
    await tell(cluster, to)
    await cluster.submit(a_document(name="off"))
    await tell(cluster, to, is_off=True)

    assert receiver.asked == []
    async with cluster.database.engine.connect() as connection:
        found = (await connection.execute(text("SELECT status, error FROM deliveries"))).all()
    assert [tuple(one) for one in found] == [("given_up", "OPENLINEAGE_URL is not set any more")]


@pytest.mark.parametrize(
    ("environment", "url"),
    [
        ({}, None),
        ({"OPENLINEAGE_URL": "http://l", "OPENLINEAGE_DISABLED": "true"}, None),
        ({"OPENLINEAGE_URL": "http://l", "OPENLINEAGE_ENDPOINT": "/x"}, "http://l/x"),
        ({"OPENLINEAGE__TRANSPORT__TYPE": "kafka", "OPENLINEAGE__TRANSPORT__URL": "x"}, None),
        ({"OPENLINEAGE__TRANSPORT__URL": "http://l"}, "http://l/api/v1/lineage"),
    ],
)
async def test_lineage_is_switched_on_by_the_standard_variables(
    cluster: Cluster, environment: dict[str, str], url: str | None
) -> None:
    found = receiver_from(environment, cluster.app.state.context.webhooks.sender)

    assert (found.url if found else None) == url
