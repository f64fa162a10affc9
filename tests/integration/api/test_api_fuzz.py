"""Whatever is sent to the API by whomever, it never answers with a 5xx of its own making and never
hangs; a caller gets what the table of roles says; answers have the shapes that the OpenAPI document
declares; and the server goes on serving.

Every operation of the document is sent with each role, without a token, and with tokens that are
revoked or expired, to a server that has jobs in several states, savepoints and artifacts. Half of
the requests use real ids, and half of them Flink's paths without /v1.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.core.result import Ok
from schemathesis.schemas import APIOperation

from jobmanager.core.access.roles import Role
from jobmanager.core.access.route_rules import RouteRule, rule_for
from jobmanager.services.access_control import AccessControl
from jobmanager.services.thread_dumps import ThreadDumps
from tests.support.builders import a_document
from tests.support.cluster import EVERYONE, Cluster
from tests.support.served_cluster import ServedCluster, a_served_cluster

_CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]
_STREAMS = ("/v1/events", "/v1/jobs/{jobid}/events", "/v1/jobs/{jobid}/logs")
"""They may go on for ever: only their beginning is looked at."""
_GRAPHS = ("/v1/jobs", "/v1/jobs/{jobid}/upgrade", "/v1/savepoints/adopt")
"""Routes whose graph may need a greater role than the route."""
_UNAVAILABLE = ("InspectorUnavailable", "has not told its threads")
"""Nobody plays the inspector or a runner that tells its threads: 503 is the right answer."""
_WITHIN = 60
NOBODY = ("nobody", "revoked", "expired")


@dataclass
class World:
    """A server that needs tokens, and what there is on it."""

    served: ServedCluster
    tokens: dict[str, str] = field(default_factory=dict)
    """The tokens of callers by role, and those that are good for nothing."""
    ids: dict[str, list[str]] = field(default_factory=dict)
    """Real values of path parameters."""


async def _a_savepoint(cluster: Cluster, job: str, number: int) -> str:
    asked = await cluster.http.post(f"/v1/jobs/{job}/savepoints", json={})
    assert asked.status_code == 202, asked.text
    runner = await cluster.noted_runner(job)
    body = {**runner.acks(number, *EVERYONE), "manifest": "manifest.json"}
    assert (await runner.post("acks", body)).json()["outcome"] == "completed"
    return str(asked.json()["request-id"])


async def _tasks(cluster: Cluster, job: str) -> list[str]:
    return [one["id"] for one in (await cluster.get(f"/v1/jobs/{job}"))["vertices"]]


async def _populate(cluster: Cluster) -> dict[str, list[str]]:
    """Jobs that run, restart, have failed, were cancelled and wait for a runner."""
    running, runner = await cluster.running(a_document(name="running"))
    await cluster.http.post(f"/v1/jobs/{running}/checkpoints")
    await runner.ack(1, *EVERYONE)
    trigger = await _a_savepoint(cluster, running, 2)
    await runner.beat()
    log = cluster.storage / "runner.log"
    log.write_text("a line\n" * 1000)
    failed, failing = await cluster.running(a_document(name="failed \N{SNOWMAN} <b>"))
    await failing.fail("boom \x1b[31m", restartable=False)
    restarting, restarted = await cluster.running(a_document(name="restarting"))
    await restarted.fail("again")
    cancelled, _ = await cluster.running(a_document(name="cancelled"))
    await cluster.http.patch(f"/v1/jobs/{cancelled}")
    waiting = await cluster.submit(a_document(name="waiting"))
    code = b"def work(spark, rows):\n    return rows\n"
    upload = await cluster.http.post(
        "/v1/artifacts",
        params={"name": "work.py"},
        content=code,
        headers={"Content-Type": "application/octet-stream"},
    )
    assert upload.status_code == 201, upload.text
    jars = []
    for name, content in (("decoy.json", b'{"name": "decoy"}'), ("work.py", code)):
        jar = await cluster.http.post("/v1/jars/upload", files={"jarfile": (name, content)})
        assert jar.status_code == 200, jar.text
        jars.append(jar.json()["filename"].rsplit("/", 1)[-1])
    savepoints = (await cluster.get("/v1/savepoints"))["items"]
    return {
        "jobid": [running, failed, restarting, cancelled, waiting],
        "sid": [one["id"] for one in savepoints],
        "oid": [trigger],
        "triggerid": [trigger],
        "aid": [upload.json()["id"]],
        "number": ["1", "2"],
        "checkpointid": ["1", "2"],
        "runner_id": [str(runner.id)],
        "vertexid": ["revenue", *await _tasks(cluster, running)],
        "applicationid": [running, failed],
        "taskmanagerid": [runner.id.hex],
        "subtaskindex": ["0", "1"],
        "attempt": ["0"],
        "jarid": jars,
        "logname": ["runner.log"],
        "rescaleuuid": [trigger],
        "vertex": ["revenue"],
        "name": ["revenue", "default", "decoy"],
        "key": ["1", '{"auction": 1}'],
    }


async def _guard(cluster: Cluster) -> dict[str, str]:
    """From here on the server needs tokens."""
    access = AccessControl(cluster.database.tokens, cluster.clock, needs_tokens=True)
    made = {role.value: (await access.create(f"a-{role}", role, None)).text for role in Role}
    made["revoked"] = (await access.create("was-revoked", Role.ADMIN, None)).text
    made["expired"] = (await access.create("expired", Role.ADMIN, timedelta(minutes=1))).text
    await access.create("decoy", Role.VIEWER, None)
    await access.revoke("was-revoked")
    cluster.clock.pass_time(90)
    cluster.app.state.context = replace(cluster.app.state.context, access=access)
    return made


@pytest.fixture(scope="module")
def world(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory: Path = tmp_path_factory.mktemp("fuzz")
    with a_served_cluster(database_url, directory) as served:
        made = World(served)
        state = served.cluster.app.state
        impatient = ThreadDumps(timedelta(milliseconds=100))
        state.context = replace(state.context, thread_dumps=impatient)
        made.ids = served.run(_populate)
        made.tokens = served.run(_guard)
        yield made


def _expected(rule: RouteRule, caller: str) -> int | None:
    """The status by which the caller is refused; None: the caller may use the route."""
    if not isinstance(rule.needs, Role):
        return None
    if caller in NOBODY:
        return 401
    return None if Role(caller).covers(rule.needs) else 403


def _send(world: World, case: schemathesis.Case[Any], caller: str, bare: bool) -> Any:
    asked = case.as_transport_kwargs(base_url=world.served.url)
    token = world.tokens.get(caller)
    headers = {
        name: value
        for name, value in dict(asked.pop("headers", None) or {}).items()
        if name.lower() != "authorization"
    }
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    if bare:
        asked["url"] = asked["url"].replace(f"{world.served.url}/v1/", f"{world.served.url}/", 1)
    asked["timeout"] = _WITHIN
    return requests.request(**asked, headers=headers, stream=True, allow_redirects=False)


def _check(case: schemathesis.Case[Any], rule: RouteRule, caller: str, answer: Any) -> None:
    said = (case.method, case.formatted_path, caller, answer.status_code)
    # a path that ends with a line end is refused before anybody is asked who they are
    refusal = 400 if case.formatted_path.endswith("%0A") else _expected(rule, caller)
    if case.operation.path in _STREAMS and answer.status_code == 200:
        assert refusal is None, said
        with suppress(StopIteration):
            next(answer.iter_content(10), b"")
        return
    text = answer.text
    if answer.status_code >= 500:
        assert answer.status_code == 503, (*said, text)
        assert any(one in text for one in _UNAVAILABLE) or "cannot be read" in text, (*said, text)
    if refusal is not None:
        assert answer.status_code == refusal, (*said, text)
    elif isinstance(rule.needs, Role) and case.operation.path not in _GRAPHS:
        assert answer.status_code not in (401, 403), (*said, text)
    case.validate_response(answer, checks=_CHECKS)


def _with_real_ids(world: World, parameters: Mapping[str, Any], pick: int) -> dict[str, Any]:
    """Real ids for each parameter that has one; `name` is also that of a token, never of a role."""
    found = dict(parameters)
    for name in found:
        if real := world.ids.get(name):
            found[name] = real[pick % len(real)]
    return found


def _fuzz(world: World, examples: int) -> None:
    """Sends every operation as everybody. Those who are refused come first: what they ask for must
    not happen.
    """
    callers = [*NOBODY, *(role.value for role in Role)]
    schema = schemathesis.openapi.from_url(f"{world.served.url}/openapi.json", timeout=_WITHIN)
    tried, faults = 0, []
    for result in schema.get_all_operations():
        assert isinstance(result, Ok), result
        try:
            _fuzz_operation(world, result.ok(), callers, examples)
        except Exception as error:
            faults.append(f"{result.ok().label}: {error}")
        tried += 1
    assert not faults, "\n\n".join(faults)
    assert tried > 130


def _fuzz_operation(
    world: World, operation: APIOperation[Any, Any, Any, Any], callers: Sequence[str], examples: int
) -> None:
    found = rule_for(operation.method.upper(), operation.path)
    assert found is not None
    rule = found[0]

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        case=operation.as_strategy(),
        is_real=st.booleans(),
        is_bare=st.booleans(),
        pick=st.integers(0, 100),
    )
    def send(case: schemathesis.Case[Any], is_real: bool, is_bare: bool, pick: int) -> None:
        if is_real and case.path_parameters:
            case.path_parameters = _with_real_ids(world, case.path_parameters, pick)
        for caller in callers:
            with _send(world, case, caller, is_bare) as answer:
                _check(case, rule, caller, answer)

    send()


def _goes_on(world: World) -> None:
    ready = requests.get(f"{world.served.url}/readyz", timeout=_WITHIN)
    assert ready.json()["status"] == "ready"


def test_no_request_of_anybody_makes_the_server_stumble(world: World) -> None:
    _fuzz(world, examples=3)
    _goes_on(world)


@pytest.mark.long
def test_no_request_of_anybody_makes_the_server_stumble_for_long(world: World) -> None:
    _fuzz(world, examples=60)
    _goes_on(world)
