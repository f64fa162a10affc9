"""Two JobManagers on one Postgres: the one that does not lead reads, and passes on the rest."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from jobmanager.api.app import make_app
from jobmanager.api.context import ApiContext
from jobmanager.api.forwarding import FORWARDED_BY
from jobmanager.core.access.roles import Role
from jobmanager.core.life.lease import Term
from jobmanager.loops.leadership import Leadership, Timing
from jobmanager.services.access_control import AccessControl
from jobmanager.store.database import Database, open_database
from tests.support.builders import a_document
from tests.support.cluster import EVERYONE, Cluster, PlayedRunner, a_jobmanager
from tests.support.databases import PATIENT

pytestmark = pytest.mark.anyio
LONG = Timing(lease=timedelta(hours=1))


@pytest.fixture(scope="module")
def app() -> FastAPI:
    return make_app(host_names=frozenset(["follower"]))


class Follower:
    """Another JobManager on the cluster's database, which does not lead."""

    def __init__(self, app: FastAPI, http: httpx.AsyncClient, leadership: Leadership) -> None:
        self.app = app
        self.http = http
        self.leadership = leadership


@pytest.fixture
async def follower(app: FastAPI, cluster: Cluster, database_url: str) -> AsyncIterator[Follower]:
    database: Database = open_database(database_url, PATIENT)
    leadership = Leadership(database.leases, a_jobmanager("http://follower"), LONG)
    database.leader = lambda: leadership.term
    await leadership.run_once()
    leaders: ApiContext = cluster.app.state.context
    app.state.context = replace(
        leaders, units=database.unit_of_work, leadership=leadership, to_leader=cluster.http
    )
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://follower") as http:
        yield Follower(app, http, leadership)
    await leadership.resign()
    await database.close()


async def test_a_follower_reads_by_itself_and_passes_on_what_is_written(
    cluster: Cluster, follower: Follower
) -> None:
    answer = await follower.http.post("/v1/jobs", json=a_document())

    assert answer.status_code == 202, answer.text
    job = answer.json()["jobid"]
    assert (await follower.http.get(f"/v1/jobs/{job}/status")).json()["state"] == "starting"
    cancelled = await follower.http.patch(f"/jobs/{job}?mode=cancel")
    assert (cancelled.status_code, cancelled.text) == (202, "{}")


async def test_a_runner_may_call_any_jobmanager(cluster: Cluster, follower: Follower) -> None:
    job = await cluster.submit(a_document())
    runner = await cluster.runner(job)
    through = replace(runner, http=follower.http)

    welcome = await through.register()
    assert welcome.status_code == 200
    await cluster.leadership.run_once()
    assert [one["body"]["kind"] for one in await through.directives()] == ["run"]
    await through.say("running", restored=[])
    answered = await through.beat()
    await cluster.http.post(f"/v1/jobs/{job}/checkpoints")

    assert answered["urls"] == ["http://headgate", "http://follower"]
    assert await through.ack(1, *EVERYONE) == "completed"
    assert await cluster.state(job) == "RUNNING"


async def test_a_runner_that_waits_at_a_follower_hears_at_once(
    cluster: Cluster, follower: Follower
) -> None:
    job, runner = await cluster.running(a_document())
    through = replace(runner, http=follower.http)
    taken = (await through.directives())[-1]["id"]

    waiting = asyncio.create_task(through.directives(after=taken, wait_ms=20_000))
    await asyncio.sleep(0.2)
    await cluster.http.post(f"/v1/jobs/{job}/checkpoints")

    async with asyncio.timeout(15):
        assert [one["body"]["kind"] for one in await waiting] == ["barrier"]


async def test_a_refusal_of_the_leader_comes_through_as_it_is(
    cluster: Cluster, follower: Follower
) -> None:
    faulty = await follower.http.post("/v1/jobs", json={"name": "x", "vertices": []})
    job = await cluster.submit(a_document())
    runner = await cluster.runner(job)
    stranger = PlayedRunner(follower.http, runner.id, "wrong", runner.job, runner.attempt)
    unknown = await stranger.register()

    assert faulty.status_code == 422
    assert faulty.headers["content-type"] == "application/problem+json"
    assert faulty.json()["faults"]
    assert unknown.status_code == 401


async def test_who_leads_is_said_by_everyone(cluster: Cluster, follower: Follower) -> None:
    for http, leads in ((cluster.http, True), (follower.http, False)):
        ready = (await http.get("/readyz")).json()
        listed = (await http.get("/v1/jobmanagers")).json()

        assert (ready["leader"], ready["leader_url"]) == (leads, "http://headgate")
        assert (ready["term"] is not None) == leads
        assert listed["leader"] == "http://headgate"
        assert listed["term"] == cluster.leadership.term
        assert listed["lease"]["is_in_force"]
        assert {one["url"]: one["is_leader"] for one in listed["items"]} == {
            "http://headgate": True,
            "http://follower": False,
        }


def unavailable(answer: httpx.Response) -> Any:
    assert answer.status_code == 503, answer.text
    assert answer.headers["retry-after"] == "2"
    return answer.json()


async def test_while_nobody_leads_writes_are_told_to_come_back_and_reads_are_answered(
    cluster: Cluster, follower: Follower
) -> None:
    job = await cluster.submit(a_document())
    runner = await cluster.runner(job)
    await cluster.leadership.resign()
    await look(follower)

    native = unavailable(await follower.http.post("/v1/jobs", json=a_document()))
    flinks = unavailable(await follower.http.patch(f"/jobs/{job}"))
    through = replace(runner, http=follower.http)
    runners = unavailable(await through.register())
    read = await follower.http.get(f"/v1/jobs/{job}/status")

    assert native["type"] == runners["type"] == "/problems/NotLeading"
    assert "errors" in flinks
    assert read.status_code == 200
    assert (await follower.http.get("/readyz")).json()["leader_url"] is None


async def look(follower: Follower) -> None:
    """The follower hears of the present, and does not stand itself."""
    follower.leadership._seen = await follower.leadership.look()


async def test_what_was_passed_on_once_is_not_passed_on_again(
    cluster: Cluster, follower: Follower
) -> None:
    headers = {FORWARDED_BY: "another"}
    refused = await follower.http.post("/v1/jobs", json=a_document(), headers=headers)

    assert "does not lead" in unavailable(refused)["detail"]


async def test_a_leader_that_was_replaced_changes_nothing_and_says_so(
    cluster: Cluster, follower: Follower
) -> None:
    """Frozen, say: it still believes to lead, and the request was under way."""
    before = len((await cluster.get("/v1/jobs"))["jobs"])
    term = cluster.leadership.term
    assert term is not None
    await cluster.database.leases.release(term)
    await follower.leadership.run_once()
    assert (cluster.leadership.term, follower.leadership.term) == (term, Term(term + 1))

    refused = unavailable(await cluster.http.post("/v1/jobs", json=a_document()))
    assert refused["type"] == "/problems/NotLeading"

    accepted = await follower.http.post("/v1/jobs", json=a_document())
    assert accepted.status_code == 202
    assert len((await cluster.get("/v1/jobs"))["jobs"]) == before + 1


async def test_what_our_own_page_asks_of_a_follower_passes_the_leaders_checks(
    cluster: Cluster, follower: Follower
) -> None:
    page = {
        "Origin": "http://follower",
        "Referer": "http://follower/",
        "Sec-Fetch-Site": "same-origin",
    }
    submitted = await follower.http.post("/v1/jobs", json=a_document(), headers=page)
    stranger = {"Origin": "http://attacker.com", "Sec-Fetch-Site": "cross-site"}
    refused = await follower.http.post("/v1/jobs", json=a_document(), headers=stranger)

    assert (submitted.status_code, refused.status_code) == (202, 403), submitted.text
    assert submitted.headers.get_list("x-frame-options") == ["DENY"]
    assert len(submitted.headers.get_list("content-security-policy")) == 1


def guard(app: FastAPI) -> AccessControl:
    """From now on the server needs tokens."""
    context: ApiContext = app.state.context
    access = AccessControl(context.access.tokens, context.clock, needs_tokens=True)
    app.state.context = replace(context, access=access)
    return access


async def test_a_follower_and_the_leader_both_ask_who_the_caller_is(
    cluster: Cluster, follower: Follower
) -> None:
    access, _ = guard(follower.app), guard(cluster.app)
    bearers = {
        role: {"Authorization": f"Bearer {(await access.create(role, role, None)).text}"}
        for role in (Role.VIEWER, Role.OPERATOR, Role.ADMIN)
    }

    nobody = await follower.http.post("/v1/jobs", json=a_document())
    viewer = await follower.http.post("/v1/jobs", json=a_document(), headers=bearers[Role.VIEWER])
    operator = await follower.http.post(
        "/v1/jobs", json=a_document(), headers=bearers[Role.OPERATOR]
    )
    audit = await follower.http.get("/v1/audit?limit=2", headers=bearers[Role.ADMIN])
    history = await follower.http.get(
        f"/v1/jobs/{operator.json()['jobid']}/history", headers=bearers[Role.VIEWER]
    )
    for role in bearers:
        await access.revoke(role)

    assert (nobody.status_code, viewer.status_code, operator.status_code) == (401, 403, 202)
    told = [(one["actor"], one["status"], one["forwarded_by"]) for one in audit.json()["items"]]
    by = str(follower.app.state.context.me)
    assert told == [("operator", 202, by), ("viewer", 403, None)]
    assert history.json()["items"][0]["actor_name"] == "operator"


async def test_an_open_follower_opens_no_leader(cluster: Cluster, follower: Follower) -> None:
    guard(cluster.app)

    read = await follower.http.get("/v1/jobs")
    write = await follower.http.post("/v1/jobs", json=a_document())

    assert read.status_code == 200
    assert write.status_code == 401
    assert write.headers["www-authenticate"].startswith("Bearer")


async def test_a_token_can_be_revoked_while_nobody_leads(
    cluster: Cluster, follower: Follower
) -> None:
    body = {"name": "stolen", "role": "admin"}
    made = await cluster.http.post("/v1/tokens", json=body)
    await cluster.leadership.resign()
    follower.app.state.context = replace(follower.app.state.context, leadership=NobodyLeads())

    job = await follower.http.post("/v1/jobs", json=a_document())
    revoked = await follower.http.delete("/v1/tokens/stolen")

    assert made.status_code == 201
    assert (job.status_code, revoked.status_code) == (503, 200)


class NobodyLeads:
    term = None
    leader_url = None


async def test_only_a_followers_word_counts_for_where_a_request_came_from(
    cluster: Cluster, follower: Follower
) -> None:
    seen: list[httpx.Headers] = []

    async def note(request: httpx.Request) -> None:
        seen.append(request.headers)

    cluster.http.event_hooks["request"].append(note)
    told = {"X-Forwarded-For": "6.6.6.6", "Forwarded": "for=6.6.6.6", "X-Forwarded-Proto": "x"}
    await follower.http.post("/v1/gc?dry_run=true", headers=told)
    cluster.http.event_hooks["request"].remove(note)

    assert seen[-1]["x-forwarded-for"] == "127.0.0.1"
    assert "6.6.6.6" not in str(seen[-1].raw)
    assert "x-forwarded-proto" not in seen[-1]
