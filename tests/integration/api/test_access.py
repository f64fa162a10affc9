"""Every route against every role; tokens; what a graph needs; and who did what."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pytest

from jobmanager.api import access as access_gate
from jobmanager.api.app import make_app
from jobmanager.api.context import ApiContext
from jobmanager.core.access.roles import Role
from jobmanager.core.access.route_rules import ROUTE_RULES, NoRole, RouteRule
from jobmanager.services.access_control import AccessControl
from jobmanager.settings import Settings
from jobmanager.store.database import Database
from tests.support.builders import a_document
from tests.support.cluster import Cluster
from tests.support.streams import StreamEnded, awake, context_of, reading, served

pytestmark = pytest.mark.anyio
Tokens = dict[Role, str]
SLOW = {"/events", "/jobs/{jobid}/events"}
"""They go on for ever where the caller may read them: see the test of streams."""


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
async def guarded(cluster: Cluster) -> AsyncIterator[Cluster]:
    """A server that needs tokens."""
    context: ApiContext = cluster.app.state.context
    access = AccessControl(cluster.database.tokens, cluster.clock, needs_tokens=True)
    cluster.app.state.context = replace(context, access=access)
    yield cluster
    for one in await access.tokens.all():
        if one.revoked_at is None:
            await access.revoke(one.name)


@pytest.fixture
async def tokens(guarded: Cluster) -> Tokens:
    access: AccessControl = guarded.app.state.context.access
    return {role: (await access.create(f"a-{role}", role, None)).text for role in Role}


def a_request(rule: RouteRule) -> dict[str, Any]:
    """One that comes as far as its route, whatever the route then says."""
    path = rule.path.replace(":path", "").replace("{number}", "1").replace("{checkpointid}", "1")
    path = path.replace("{subtaskindex}", "0").replace("{attempt}", "0")
    ids = ("{jobid}", "{sid}", "{oid}", "{triggerid}", "{vertexid}", "{applicationid}")
    for name in (*ids, "{rescaleuuid}", "{taskmanagerid}", "{datasetid}"):
        path = path.replace(name, "0" * 32)
    path = path.replace("{aid}", "0" * 64).replace("{", "").replace("}", "")
    asked: dict[str, Any] = {"method": rule.method, "url": path}
    if rule.is_write and rule.path == "/artifacts":
        asked["headers"] = {"Content-Type": "application/octet-stream"}
        asked["content"] = b"x = 1"
        asked["params"] = {"name": "x.py"}
    elif rule.path == "/jars/upload":
        asked["files"] = {"jarfile": ("x.py", b"x = 1")}
    elif rule.is_write and rule.method != "GET":
        asked["json"] = {}
    return asked


async def ask(cluster: Cluster, rule: RouteRule, token: str | None) -> httpx.Response:
    asked = a_request(rule)
    headers = {**asked.pop("headers", {}), **(bearer(token) if token else {})}
    return await cluster.http.request(**asked, headers=headers)


async def test_every_route_against_every_role(guarded: Cluster, tokens: Tokens) -> None:
    for rule in ROUTE_RULES:
        if not isinstance(rule.needs, Role):
            continue
        nobody = await ask(guarded, rule, None)
        assert nobody.status_code == 401, (rule, nobody.text)
        assert nobody.headers["www-authenticate"].startswith("Bearer")
        assert "HEADGATE_TOKEN" in nobody.text
        for role in Role:
            if role.covers(rule.needs) and rule.path in SLOW:
                continue
            answer = await ask(guarded, rule, tokens[role])
            if role.covers(rule.needs):
                assert answer.status_code not in (401, 403, 500), (rule, role, answer.text)
            else:
                assert answer.status_code == 403, (rule, role, answer.text)
                assert f"needs the role {rule.needs}" in answer.text


async def test_open_routes_ask_for_no_token(guarded: Cluster) -> None:
    for rule in ROUTE_RULES:
        if rule.needs is NoRole.OPEN:
            answer = await ask(guarded, rule, None)
            assert answer.status_code in (200, 404), (rule, answer.text)  # a file may be missing


async def test_no_users_token_speaks_for_a_runner(guarded: Cluster, tokens: Tokens) -> None:
    job = await submitted(guarded, tokens[Role.OPERATOR])
    runner = await guarded.runner(job)
    hello = {"protocol": 1, "pid": 1, "host": "x", "spark_version": "4", "versions": {}}

    for rule in ROUTE_RULES:
        if rule.needs is NoRole.RUNNER:
            path = rule.path.replace("{runner_id}", str(runner.id))
            answer = await guarded.http.request(
                rule.method, path, json=hello, headers=bearer(tokens[Role.ADMIN])
            )
            assert answer.status_code in (400, 401), (rule, answer.text)


async def submitted(cluster: Cluster, token: str, **more: Any) -> str:
    answer = await cluster.http.post("/v1/jobs", json=a_document(**more), headers=bearer(token))
    assert answer.status_code == 202, answer.text
    return str(answer.json()["jobid"])


async def test_flinks_paths_refuse_in_flinks_words(guarded: Cluster, tokens: Tokens) -> None:
    nobody = await guarded.http.get("/jobs/overview")
    viewer = await guarded.http.patch("/jobs/" + "0" * 32, headers=bearer(tokens[Role.VIEWER]))
    native = await guarded.http.get("/v1/jobs/summary")

    assert [*nobody.json()] == [*viewer.json()] == ["errors"]
    assert "token" in nobody.json()["errors"][0]
    assert "role operator" in viewer.json()["errors"][0]
    assert native.json()["title"] == "A token is needed"
    assert native.headers["content-type"] == "application/problem+json"


async def test_what_is_no_route_is_told_to_who_is_known_only(
    guarded: Cluster, tokens: Tokens
) -> None:
    nobody = await guarded.http.get("/v1/nothing")
    viewer = await guarded.http.get("/v1/nothing", headers=bearer(tokens[Role.VIEWER]))
    admin = await guarded.http.get("/v1/nothing", headers=bearer(tokens[Role.ADMIN]))

    assert (nobody.status_code, viewer.status_code, admin.status_code) == (401, 404, 404)
    assert viewer.json() == admin.json()


async def test_a_route_that_is_missing_from_the_table_is_for_admins_only(
    guarded: Cluster, tokens: Tokens
) -> None:
    app = make_app(host_names=frozenset(["headgate"]))
    app.state.context = guarded.app.state.context
    app.add_api_route("/unlisted", lambda: {"reached": True})

    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://headgate") as http:
        found = {
            role: (await http.get("/unlisted", headers=bearer(tokens[role]))).status_code
            for role in Role
        }

    assert found == {**dict.fromkeys(Role, 404), Role.ADMIN: 200}


@pytest.mark.parametrize("path", ["/v1/events", "/v1/jobs/{}/events", "/v1/jobs/{}/logs"])
async def test_streams_are_for_who_may_read(guarded: Cluster, tokens: Tokens, path: str) -> None:
    job = await submitted(guarded, tokens[Role.OPERATOR])

    refused = await guarded.http.get(path.format(job), params={"follow": "true"})

    assert refused.status_code == 401


async def test_a_stream_ends_when_its_token_does(
    guarded: Cluster, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_gate, "ACCEPTED_FOR", 0.05)
    access: AccessControl = guarded.app.state.context.access
    short = await access.create("short-lived", Role.VIEWER, timedelta(minutes=1))
    lasting = await access.create("lasting", Role.OPERATOR, None)

    async with (
        awake(context_of(guarded.app).events, database),
        served(guarded.app) as url,
        reading(url, token=short.text) as ending,
        reading(url, token=lasting.text) as going_on,
    ):
        await submitted(guarded, lasting.text)
        assert (await ending.next("job_submitted"))["data"]["name"] == "revenue"
        guarded.clock.pass_time(60)
        with pytest.raises(StreamEnded):
            await ending.next("never")
        await submitted(guarded, lasting.text)
        assert await going_on.next("job_submitted")
        assert await going_on.next("job_submitted")


async def test_tokens_that_are_wrong_revoked_or_expired(guarded: Cluster) -> None:
    access: AccessControl = guarded.app.state.context.access
    revoked = await access.create("revoked", Role.ADMIN, None)
    short = await access.create("short", Role.ADMIN, timedelta(minutes=1))

    async def said(authorization: str) -> tuple[int, str]:
        answer = await guarded.http.get("/v1/jobs", headers={"Authorization": authorization})
        return answer.status_code, answer.text

    assert (await said(f"Bearer {revoked.text}"))[0] == 200
    assert (await said(f"Bearer {short.text}"))[0] == 200
    await access.revoke("revoked")
    guarded.clock.pass_time(60)
    status, text = await said(f"Bearer {revoked.text}")
    assert status == 401
    assert "'revoked' was revoked at" in text
    status, text = await said(f"Bearer {short.text}")
    assert status == 401
    assert "'short' expired at" in text
    for wrong in ("Bearer hg_" + "a" * 43, "Bearer nonsense", "Basic YTpi", "Bearer", "hg_x"):
        assert (await said(wrong))[0] == 401


async def test_two_authorization_headers_fit_no_rule(guarded: Cluster, tokens: Tokens) -> None:
    both = [("Authorization", f"Bearer {tokens[role]}") for role in (Role.ADMIN, Role.VIEWER)]

    assert (await guarded.http.get("/v1/jobs", headers=both)).status_code == 401


async def test_a_token_that_another_server_revoked_is_refused_within_a_second(
    guarded: Cluster,
) -> None:
    access: AccessControl = guarded.app.state.context.access
    token = (await access.create("elsewhere", Role.VIEWER, None)).text
    assert (await guarded.http.get("/v1/jobs", headers=bearer(token))).status_code == 200

    await guarded.database.tokens.revoke("elsewhere", guarded.clock())
    await asyncio.sleep(1.1)

    assert (await guarded.http.get("/v1/jobs", headers=bearer(token))).status_code == 401


async def test_without_a_need_for_tokens_one_that_is_sent_counts(cluster: Cluster) -> None:
    access: AccessControl = cluster.app.state.context.access
    viewer = await access.create("just-reads", Role.VIEWER, None)

    anonymous = await cluster.http.get("/v1/whoami")
    known = await cluster.http.get("/v1/whoami", headers=bearer(viewer.text))
    too_much = await cluster.http.post("/v1/gc?dry_run=true", headers=bearer(viewer.text))
    wrong = await cluster.http.get("/v1/whoami", headers=bearer("hg_" + "a" * 43))
    await access.revoke("just-reads")

    assert anonymous.json() == {
        "name": "anonymous",
        "role": "admin",
        "covers": ["viewer", "operator", "developer", "admin"],
        "needs_token": False,
        "expires_at": None,
    }
    assert (known.json()["name"], known.json()["covers"]) == ("just-reads", ["viewer"])
    assert (too_much.status_code, wrong.status_code) == (403, 401)


async def test_a_token_by_the_api_from_its_creation_to_its_end(
    guarded: Cluster, tokens: Tokens
) -> None:
    admin = bearer(tokens[Role.ADMIN])
    body = {"name": "ci", "role": "operator", "expires_in_ms": 86_400_000}

    made = await guarded.http.post("/v1/tokens", json=body, headers=admin)
    again = await guarded.http.post("/v1/tokens", json=body, headers=admin)
    used = await guarded.http.get("/v1/whoami", headers=bearer(made.json()["token"]))
    listed = await guarded.http.get("/v1/tokens", headers=admin)
    revoked = await guarded.http.delete("/v1/tokens/ci", headers=admin)
    refused = await guarded.http.get("/v1/whoami", headers=bearer(made.json()["token"]))
    twice = await guarded.http.delete("/v1/tokens/ci", headers=admin)
    renewed = await guarded.http.post("/v1/tokens", json=body, headers=admin)

    assert made.status_code == 201
    assert made.json()["token"].startswith("hg_")
    assert (again.status_code, again.json()["title"]) == (409, "There is a token of that name")
    assert (used.json()["name"], used.json()["role"]) == ("ci", "operator")
    assert used.json()["expires_at"] == made.json()["expires_at"]
    [line] = [one for one in listed.json()["items"] if one["name"] == "ci"]
    assert (line["name"], line["is_usable"]) == ("ci", True)
    assert line["last_used_at"] is not None
    assert "token" not in line
    assert made.json()["token"][3:] not in listed.text
    assert revoked.json()["revoked_at"] is not None
    assert (refused.status_code, twice.status_code, renewed.status_code) == (401, 404, 201)


@pytest.mark.parametrize("name", ["anonymous", "a b", "", "a/b"])
async def test_a_name_that_no_token_can_have(guarded: Cluster, tokens: Tokens, name: str) -> None:
    body = {"name": name, "role": "viewer"}
    answer = await guarded.http.post("/v1/tokens", json=body, headers=bearer(tokens[Role.ADMIN]))

    assert answer.status_code == 422


async def test_the_first_admin_token_is_made_once(guarded: Cluster) -> None:
    access: AccessControl = guarded.app.state.context.access

    made = await asyncio.gather(*(access.create_first_admin() for _ in range(4)))

    [first] = [one for one in made if one is not None]
    assert (await guarded.http.get("/v1/tokens", headers=bearer(first.text))).status_code == 200
    await access.revoke("first-admin")
    assert await access.create_first_admin() is not None
    open_server = AccessControl(guarded.database.tokens, guarded.clock, needs_tokens=False)
    await access.revoke("first-admin")
    assert await open_server.create_first_admin() is None


async def test_the_use_of_a_token_is_written_once_a_minute(guarded: Cluster) -> None:
    access: AccessControl = guarded.app.state.context.access
    token = (await access.create("often", Role.VIEWER, None)).text
    fresh = AccessControl(guarded.database.tokens, guarded.clock, needs_tokens=True)

    async def last_used() -> Any:
        found = await guarded.database.tokens.all()
        return next(one.last_used_at for one in found if one.name == "often")

    begun = guarded.clock()
    await access.caller(token, None)
    guarded.clock.pass_time(30)
    await fresh.caller(token, None)  # a server that has not seen the token yet
    assert await last_used() == begun
    guarded.clock.pass_time(31)
    other = AccessControl(guarded.database.tokens, guarded.clock, needs_tokens=True)
    await other.caller(token, None)
    assert await last_used() == guarded.clock()


CODE = {"artifacts": ["0" * 64]}


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/jobs?dry_run=true", "/v1/jobs/{}/upgrade"])
async def test_a_graph_with_code_needs_a_developer(
    guarded: Cluster, tokens: Tokens, path: str
) -> None:
    job = await submitted(guarded, tokens[Role.OPERATOR])
    graph = {**a_document(), **CODE}

    operator = await guarded.http.post(
        path.format(job), json=graph, headers=bearer(tokens[Role.OPERATOR])
    )
    developer = await guarded.http.post(
        path.format(job), json=graph, headers=bearer(tokens[Role.DEVELOPER])
    )

    assert operator.status_code == 403, operator.text
    assert "the graph names artifacts" in operator.json()["detail"]
    assert developer.status_code != 403, developer.text  # there is no such artifact
    assert "artifact" in developer.text


async def test_adopting_with_a_graph_with_code_needs_a_developer(
    guarded: Cluster, tokens: Tokens
) -> None:
    body = {"path": "/nowhere", "graph": {**a_document(), **CODE}}

    answer = await guarded.http.post(
        "/v1/savepoints/adopt", json=body, headers=bearer(tokens[Role.OPERATOR])
    )

    assert answer.status_code == 403


async def test_an_artifact_by_its_path_is_not_read_for_an_operator(
    guarded: Cluster, tokens: Tokens
) -> None:
    module = guarded.storage / "mine.py"
    module.write_text("def f(rows): return rows\n")
    graph = {**a_document(), "artifacts": [str(module)]}

    await guarded.http.post("/v1/jobs", json=graph, headers=bearer(tokens[Role.OPERATOR]))
    listed = await guarded.http.get("/v1/artifacts", headers=bearer(tokens[Role.VIEWER]))

    assert "mine.py" not in [one["name"] for one in listed.json()["items"]]


async def test_the_history_names_who_it_was(guarded: Cluster, tokens: Tokens) -> None:
    job = await submitted(guarded, tokens[Role.OPERATOR])
    developer = bearer(tokens[Role.DEVELOPER])
    await guarded.http.patch(f"/jobs/{job}", headers=developer)

    answer = await guarded.http.get(f"/v1/jobs/{job}/history", headers=developer)

    entries = {one["kind"]: one for one in answer.json()["items"]}
    assert entries["job_submitted"]["actor"] == "client"
    assert entries["job_submitted"]["actor_name"] == "a-operator"
    asked = [one for one in answer.json()["items"] if one["actor_name"] == "a-developer"]
    assert asked


async def test_every_write_is_in_the_audit_refused_or_not(guarded: Cluster, tokens: Tokens) -> None:
    admin = bearer(tokens[Role.ADMIN])
    job = await submitted(guarded, tokens[Role.OPERATOR])
    await guarded.http.patch(f"/jobs/{job}", headers=bearer(tokens[Role.VIEWER]))
    graph = {**a_document(), **CODE}
    await guarded.http.post("/v1/jobs", json=graph, headers=bearer(tokens[Role.OPERATOR]))
    await guarded.http.post("/v1/jobs", content=b"{", headers={**admin, **JSON})
    await guarded.http.get("/v1/jobs", headers=admin)
    await guarded.http.post("/v1/gc")  # by nobody
    body = {"name": "by-hand", "role": "viewer"}
    await guarded.http.post("/v1/tokens", json=body, headers=admin)

    answer = await guarded.http.get("/v1/audit?limit=5", headers=admin)

    lines = [
        (one["actor"], one["role"], one["method"], one["route"], one["subject"], one["status"])
        for one in answer.json()["items"]
    ]
    assert lines == [
        ("a-admin", "admin", "POST", "/tokens", "by-hand", 201),
        ("a-admin", "admin", "POST", "/jobs", None, 400),
        ("a-operator", "operator", "POST", "/jobs", None, 403),
        ("a-viewer", "viewer", "PATCH", "/jobs/{jobid}", job, 403),
        ("a-operator", "operator", "POST", "/jobs", job, 202),
    ]
    assert {one["origin"] for one in answer.json()["items"]} == {"127.0.0.1"}


JSON = {"Content-Type": "application/json"}


async def test_the_audit_is_read_page_by_page(cluster: Cluster) -> None:
    for _ in range(3):
        await cluster.http.post("/v1/gc?dry_run=true")

    first = (await cluster.http.get("/v1/audit?limit=2")).json()
    second = (await cluster.http.get(f"/v1/audit?limit=2&before={first['next']}")).json()

    assert [one["actor"] for one in first["items"]] == ["anonymous", "anonymous"]
    assert first["items"][-1]["id"] == first["next"] > second["items"][0]["id"]


async def test_what_a_server_did_not_live_to_answer_stays_in_the_audit(cluster: Cluster) -> None:
    context: ApiContext = cluster.app.state.context

    class Dies:
        def __getattr__(self, name: str) -> Any:
            raise KeyboardInterrupt  # no exception that anybody catches

    cluster.app.state.context = replace(context, run_settings=Dies())  # type: ignore[arg-type]
    with pytest.raises(BaseException):  # noqa: B017, PT011
        await cluster.http.post("/v1/jobs", json=a_document())
    cluster.app.state.context = context

    [line] = (await cluster.http.get("/v1/audit?limit=1")).json()["items"]
    assert (line["route"], line["status"]) == ("/jobs", None)


@pytest.mark.parametrize(
    ("trusted", "origin"),
    [((), "127.0.0.1"), (("10.0.0.0/8",), "127.0.0.1"), (("127.0.0.0/8",), "203.0.113.7")],
)
async def test_only_a_trusted_proxy_says_where_a_request_came_from(
    cluster: Cluster, trusted: tuple[str, ...], origin: str
) -> None:
    told = {"X-Forwarded-For": "203.0.113.7"}

    async with (
        served(cluster.app, Settings(trusted_proxies=trusted)) as url,
        httpx.AsyncClient(base_url=url, trust_env=False) as http,
    ):
        assert (await http.post("/v1/gc?dry_run=true", headers=told)).status_code == 200

    [line] = (await cluster.http.get("/v1/audit?limit=1")).json()["items"]
    assert line["origin"] == origin
