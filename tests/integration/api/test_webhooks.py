"""Webhooks against a real HTTP receiver: what is sent, in which order, again, and by whom."""

import asyncio
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from sqlalchemy import text

from jobmanager.core.errors import NotLeading
from jobmanager.core.signals import delivery as deliveries
from jobmanager.core.signals.delivery import Delivery
from jobmanager.core.signals.signature import is_genuine
from jobmanager.core.signals.target_address import address_rules
from jobmanager.core.signals.webhook import WebhookId
from jobmanager.loops.deliverer import Deliverer
from jobmanager.loops.webhook_rules import DeliveryPruner, WebhookRules
from jobmanager.services.webhooks import WebhookSending, target_of
from jobmanager.signals.request_sender import HttpRequestSender
from jobmanager.signals.server_secrets import ServerSecrets
from tests.support.answering_server import Answers, an_answering_server
from tests.support.builders import NOW, a_document
from tests.support.cluster import EVERYONE, Cluster

pytestmark = pytest.mark.anyio
KEY = "a key of the receiver, long enough"


@pytest.fixture
def receiver() -> Iterator[Answers]:
    with an_answering_server() as given:
        given.of["POST /hook"] = (204, "")
        yield given


@pytest.fixture(autouse=True)
async def _nothing_of_other_tests(cluster: Cluster) -> None:
    async with cluster.database.engine.begin() as connection:
        await connection.execute(text("DELETE FROM webhooks"))


async def create(cluster: Cluster, url: str, **more: Any) -> httpx.Response:
    body = {"name": "ops", "url": url, "on": ["state_changed"], "secret": KEY, **more}
    return await cluster.http.post("/v1/webhooks", json=body)


async def created(cluster: Cluster, receiver: Answers, **more: Any) -> dict[str, Any]:
    answer = await create(cluster, f"{receiver.url}/hook", **more)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def a_deliverer(cluster: Cluster) -> Deliverer:
    sending: WebhookSending = cluster.app.state.context.webhooks
    return Deliverer(cluster.database.unit_of_work, sending, cluster.clock, asyncio.Event())


async def deliver(cluster: Cluster, deliverer: Deliverer | None = None) -> None:
    """Apply the rules, and send until nothing is due."""
    await WebhookRules(cluster.database.unit_of_work, cluster.clock).run_once()
    chosen = deliverer or a_deliverer(cluster)
    await chosen.run_once()
    while chosen.under_way:
        await asyncio.gather(*chosen.under_way.values())
        await chosen.run_once()


def told(receiver: Answers) -> list[tuple[str, str | None]]:
    return [(body["event"], body["state"]) for _, body in receiver.asked]


async def recorded(cluster: Cluster, name: str = "ops") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await cluster.get(f"/v1/webhooks/{name}/deliveries"))["items"]
    return found


async def test_a_job_is_followed_in_order_and_signed(cluster: Cluster, receiver: Answers) -> None:
    job, runner = await cluster.running(a_document(name="before"))
    await created(cluster, receiver, on=["state_changed", "restart", "checkpoint_failed"])
    await runner.fail()
    await deliver(cluster)

    assert told(receiver) == [("restart", "restarting")]
    (_, body), headers = receiver.asked[0], receiver.headers[0]
    raw = json.dumps(body, ensure_ascii=False).encode()
    assert is_genuine(headers["Headgate-Signature"], KEY, raw, NOW)
    assert headers["Headgate-Delivery"] == body["id"]
    assert headers["Headgate-Event"] == "restart"
    assert body["job"] == {"id": job, "name": "before"}
    assert body["cause"]
    assert KEY not in json.dumps([receiver.asked, receiver.headers])
    (only,) = await recorded(cluster)
    assert (only["status"], only["tries"], only["answer_status"]) == ("delivered", 1, 204)
    assert only["delivery"] == body["id"]
    await deliver(cluster)
    assert len(receiver.asked) == 1


async def test_rules_choose_events_and_jobs(cluster: Cluster, receiver: Answers) -> None:
    await created(cluster, receiver, on=["checkpoint_failed"], job="orders-*")
    for name in ("orders-eu", "payments"):
        job, runner = await cluster.running(a_document(name=name))
        asked = await cluster.http.post(f"/v1/jobs/{job}/checkpoints")
        await cluster.dispatch.run_once()
        await runner.decline(asked.json()["number"])
    await deliver(cluster)

    assert [(body["event"], body["job"]["name"]) for _, body in receiver.asked] == [
        ("checkpoint_failed", "orders-eu")
    ]


async def test_a_receiver_that_is_away_gets_all_in_order_later(
    cluster: Cluster, receiver: Answers
) -> None:
    await created(cluster, receiver)
    receiver.of["POST /hook"] = [(500, "no"), (0, ""), (204, "")]
    job = await cluster.submit(a_document(name="late"))
    await (await cluster.runner(job)).run()
    await deliver(cluster)
    await deliver(cluster)
    first = (await recorded(cluster))[-1]
    assert (first["status"], first["tries"], first["error"]) == ("pending", 1, "answered 500")
    cluster.clock.pass_time(5)
    await deliver(cluster)
    first = (await recorded(cluster))[-1]
    assert first["error"] == "the connection was closed without an answer"
    cluster.clock.pass_time(9)
    await deliver(cluster)
    assert len(receiver.asked) == 2  # ten seconds have not passed
    cluster.clock.pass_time(1)
    await deliver(cluster)

    states = [state for _, state in told(receiver)]
    assert states[:3] == [states[0]] * 3  # three tries of the first
    assert states[2:] == ["running"] or states[2:] == ["starting", "running"]
    ids = [body["id"] for _, body in receiver.asked]
    assert len(set(ids)) == len(states[2:])
    assert {one["status"] for one in await recorded(cluster)} == {"delivered"}


async def test_a_leader_that_dies_after_sending_leaves_the_delivery_to_the_next(
    cluster: Cluster, receiver: Answers
) -> None:
    await created(cluster, receiver)
    job = await cluster.submit(a_document(name="failover"))
    await (await cluster.runner(job)).run()
    sending: WebhookSending = cluster.app.state.context.webhooks

    class DyingSender:
        """Sends the request; then the process is gone, before anything can be recorded."""

        async def send(self, request: Any) -> Any:
            await sending.sender.send(request)
            raise asyncio.CancelledError

    dying = Deliverer(
        cluster.database.unit_of_work,
        replace(sending, sender=DyingSender()),  # type: ignore[arg-type]
        cluster.clock,
        asyncio.Event(),
    )
    await WebhookRules(cluster.database.unit_of_work, cluster.clock).run_once()
    await dying.run_once()
    await asyncio.gather(*dying.under_way.values(), return_exceptions=True)
    assert len(receiver.asked) == 1
    assert {one["tries"] for one in await recorded(cluster)} == {0}

    await deliver(cluster, a_deliverer(cluster))

    ids = [body["id"] for _, body in receiver.asked]
    assert ids[0] == ids[1]
    assert len(ids) == len(set(ids)) + 1
    assert {one["status"] for one in await recorded(cluster)} == {"delivered"}


async def test_a_leader_that_was_replaced_records_nothing(
    cluster: Cluster, receiver: Answers
) -> None:
    await created(cluster, receiver)
    await cluster.running(a_document(name="replaced"))
    rules = WebhookRules(cluster.database.unit_of_work, cluster.clock)
    term = cluster.leadership.term
    assert term is not None
    cluster.database.leader = lambda: type(term)(term - 1)
    try:
        with pytest.raises(NotLeading):
            await rules.run_once()
    finally:
        cluster.database.leader = lambda: cluster.leadership.term

    assert await recorded(cluster) == []
    await deliver(cluster)
    assert len(await recorded(cluster)) == len(receiver.asked) > 0


async def test_an_entry_that_is_read_twice_is_stored_once(
    cluster: Cluster, receiver: Answers
) -> None:
    await created(cluster, receiver)
    await cluster.running(a_document(name="twice"))
    rules = WebhookRules(cluster.database.unit_of_work, cluster.clock)
    await rules.run_once()
    before = await recorded(cluster)
    async with cluster.database.engine.begin() as connection:
        await connection.execute(text("UPDATE webhooks SET told_up_to = 0"))
    await rules.run_once()

    keys = [one["delivery"] for one in await recorded(cluster)]
    assert len(keys) == len(set(keys))
    assert {one["delivery"] for one in before} <= set(keys)


async def test_a_webhook_that_is_created_meanwhile_is_told_of_what_others_were_told(
    cluster: Cluster, receiver: Answers
) -> None:
    """While rules are applied, another webhook is stored, with an older beginning."""
    await created(cluster, receiver)
    await cluster.running(a_document(name="meanwhile"))
    async with cluster.database.unit_of_work() as uow:
        known = await uow.webhooks.all()
        newest = await uow.history.newest()
        older = replace(known[0], id=WebhookId(uuid4()), name="new", told_up_to=newest - 1)
        await uow.webhooks.add(older)
        await uow.webhooks.advance([one.id for one in known], newest)
        await uow.commit()
    await deliver(cluster)

    assert len(await recorded(cluster, "new")) == len(receiver.asked) == 1


async def test_the_test_button_shows_what_the_receiver_says(
    cluster: Cluster, receiver: Answers
) -> None:
    await created(cluster, receiver)
    receiver.of["POST /hook"] = [(200, "x" * 5000), (302, "elsewhere"), (0, "")]
    answers = [(await cluster.http.post("/v1/webhooks/ops/test")).json() for _ in range(3)]

    taken, moved, closed = answers
    assert (taken["is_delivered"], taken["status"], taken["answer"]) == (True, 200, "x" * 1024)
    assert (moved["is_delivered"], moved["status"]) == (False, 302)
    assert "redirects are not followed" in moved["error"]
    assert (closed["status"], closed["answer"]) == (None, None)
    assert "closed" in closed["error"]
    assert len(receiver.asked) == 3
    assert [body["event"] for _, body in receiver.asked] == ["test"] * 3
    assert [one["status"] for one in await recorded(cluster)] == [
        "given_up",
        "given_up",
        "delivered",
    ]
    missing = await cluster.http.post("/v1/webhooks/nobody/test")
    assert missing.status_code == 404


async def test_secrets_are_shown_once_or_never(
    cluster: Cluster, receiver: Answers, tmp_path: Path
) -> None:
    made = await created(cluster, receiver, secret=None)
    key = made["made_secret"]
    assert len(key) >= 32
    listed = await cluster.http.get("/v1/webhooks")
    assert key not in listed.text
    assert "/hook" not in listed.text
    assert listed.json()["items"][0]["url"] == f"{receiver.url}/…"
    given = await created(cluster, receiver, name="given")
    assert given["made_secret"] is None
    assert KEY not in (await cluster.http.get("/v1/webhooks")).text
    gone = await cluster.http.delete("/v1/webhooks/ops")
    assert gone.status_code == 200
    assert key not in gone.text

    context = cluster.app.state.context
    (tmp_path / "hooks").write_text("from a file of the server\n")
    (tmp_path / "way").write_text("hook")
    secrets = ServerSecrets(tmp_path, environment={})
    named = replace(context, webhooks=replace(context.webhooks, secrets=secrets))
    cluster.app.state.context = named
    try:
        referred = await create(
            cluster,
            f"{receiver.url}/${{secret:way}}",
            name="referred",
            secret="${secret:hooks}",
        )
        assert referred.json()["secret"] == "${secret:hooks}"
        tested = (await cluster.http.post("/v1/webhooks/referred/test")).json()
        assert tested["is_delivered"], tested
        missing = await create(cluster, receiver.url, name="m", secret="${secret:nothing}")
    finally:
        cluster.app.state.context = context
    raw = json.dumps(receiver.asked[-1][1], ensure_ascii=False).encode()
    signed = receiver.headers[-1]["Headgate-Signature"]
    assert is_genuine(signed, "from a file of the server", raw, NOW)
    assert missing.status_code == 422
    assert "no secret 'nothing'" in missing.text


async def test_what_cannot_be_created_says_why(cluster: Cluster, receiver: Answers) -> None:
    await created(cluster, receiver)
    refused: dict[str, tuple[int, dict[str, Any]]] = {
        "there is a webhook 'ops'": (409, {}),
        "cannot be named": (422, {"name": "a b"}),
        "has to begin with https://": (422, {"url": "ftp://x/y"}),
        "it has 5 characters": (422, {"name": "b", "secret": "short"}),
        "link-local address 169.254.169.254": (
            422,
            {"name": "c", "url": "http://169.254.169.254/latest"},
        ),
        "'test' is no event": (422, {"name": "d", "on": ["restart", "test"]}),
    }
    for says, (status, changes) in refused.items():
        answer = await create(cluster, **{"url": f"{receiver.url}/hook", **changes})
        assert (answer.status_code, says in answer.text) == (status, True), answer.text
    assert [one["name"] for one in (await cluster.get("/v1/webhooks"))["items"]] == ["ops"]


async def test_no_request_reaches_an_address_that_is_not_allowed(
    cluster: Cluster, receiver: Answers
) -> None:
    """Created when the address was allowed, or when the host's name led elsewhere."""
    await created(cluster, receiver)
    context = cluster.app.state.context
    strict = replace(context.webhooks, rules=address_rules((), takes_any=False))
    cluster.app.state.context = replace(context, webhooks=strict)
    try:
        refused = await create(cluster, receiver.url, name="other")
        by_name = receiver.url.replace("127.0.0.1", "localhost")
        refused_name = await create(cluster, by_name, name="other")
        tested = (await cluster.http.post("/v1/webhooks/ops/test")).json()
    finally:
        cluster.app.state.context = context
    assert refused.status_code == refused_name.status_code == 422
    assert f"--allow-path {receiver.url}" in refused.text
    assert not tested["is_delivered"]
    assert "loopback" in tested["error"]
    assert receiver.asked == []

    told_the_place = replace(context.webhooks, rules=address_rules([receiver.url], takes_any=False))
    cluster.app.state.context = replace(context, webhooks=told_the_place)
    try:
        assert (await cluster.http.post("/v1/webhooks/ops/test")).json()["is_delivered"]
    finally:
        cluster.app.state.context = context


async def test_a_receiver_that_never_answers_holds_up_nobody(cluster: Cluster) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # until the sender gives up
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    context = cluster.app.state.context
    async with HttpRequestSender(within=0.2) as sender:
        impatient = replace(context.webhooks, sender=sender)
        cluster.app.state.context = replace(context, webhooks=impatient)
        try:
            await create(cluster, f"http://127.0.0.1:{port}/")
            tested = (await cluster.http.post("/v1/webhooks/ops/test")).json()
        finally:
            cluster.app.state.context = context
            server.close()
            await server.wait_closed()
    assert tested["error"] == "no answer within 0.2 seconds"


async def test_deliveries_are_bounded(
    cluster: Cluster, receiver: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobmanager.loops.webhook_rules.MOST_PENDING", 2)
    monkeypatch.setattr("jobmanager.loops.webhook_rules.MOST_ENDED", 1)
    await created(cluster, receiver)
    for name in "abcd":
        await cluster.running(a_document(name=name))
    await WebhookRules(cluster.database.unit_of_work, cluster.clock).run_once()

    found = await recorded(cluster)
    assert [one["status"] for one in found[:2]] == ["pending"] * 2
    assert {one["status"] for one in found[2:]} == {"given_up"}
    assert len(found) >= 4
    listed = (await cluster.get("/v1/webhooks"))["items"][0]
    assert (listed["pending"], listed["given_up"]) == (2, len(found) - 2)
    await DeliveryPruner(cluster.database.unit_of_work, cluster.clock).run_once()
    assert [one["status"] for one in await recorded(cluster)] == ["pending", "pending", "given_up"]
    cluster.clock.pass_time(timedelta(days=8).total_seconds())
    await DeliveryPruner(cluster.database.unit_of_work, cluster.clock).run_once()
    assert [one["status"] for one in await recorded(cluster)] == ["pending", "pending"]


async def test_a_completed_checkpoint_is_no_news(cluster: Cluster, receiver: Answers) -> None:
    job, runner = await cluster.running(a_document(name="quiet"))
    await created(cluster, receiver, on=["checkpoint_failed", "state_changed"])
    asked = await cluster.http.post(f"/v1/jobs/{job}/checkpoints")
    await cluster.dispatch.run_once()
    await runner.ack(asked.json()["number"], *EVERYONE)
    await deliver(cluster)

    assert receiver.asked == []


async def test_what_is_ready_is_read_in_sql_as_the_core_says(cluster: Cluster) -> None:
    ids = [WebhookId(uuid4()) for _ in range(3)]
    for number, webhook_id in enumerate(ids):
        async with cluster.database.engine.begin() as connection:
            await connection.execute(
                text(
                    "INSERT INTO webhooks (id, name, url, events, secret, created_at, told_up_to)"
                    " VALUES (:id, :name, 'http://x', '[]', 'x', :now, 0)"
                ),
                {"id": webhook_id, "name": f"n{number}", "now": NOW},
            )
    chance, found_any = random.Random(7), 0
    for round_ in range(40):
        made = [_a_random_delivery(chance, ids, round_ * 100 + n) for n in range(8)]
        async with cluster.database.unit_of_work() as uow:
            await uow.deliveries.add(made)
            stored = [one for id_ in ids for one in await uow.deliveries.of_target(id_.hex, 99)]
            busy = {id_.hex for id_ in chance.sample(ids, chance.randint(0, 2))}
            found = await uow.deliveries.ready(busy, NOW, 10)
        assert [one.id for one in found] == [one.id for one in deliveries.ready(stored, busy, NOW)]
        found_any += len(found)
    assert found_any > 20


def _a_random_delivery(chance: random.Random, ids: list[WebhookId], number: int) -> Delivery:
    webhook_id = chance.choice(ids)
    return Delivery(
        target_of(webhook_id),
        UUID(int=number),
        "restart",
        "{}",
        NOW,
        NOW + timedelta(seconds=chance.choice((-5, 0, 5))),
        webhook_id=webhook_id,
        steps_aside=chance.random() < 0.4,
    )
