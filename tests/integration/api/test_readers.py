"""Reader processes: what they answer is what the server's own process answers.

Real processes on a real port; jobs and runners are played. The end-to-end tests kill them.
"""

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest

from jobmanager.core.access.reader_routes import READER_ROUTES
from jobmanager.core.access.roles import Role
from jobmanager.core.access.route_rules import ROUTE_RULES
from jobmanager.services.access_control import AccessControl
from jobmanager.settings import Settings
from tests.support.builders import a_document
from tests.support.cluster import EVERYONE, Cluster
from tests.support.served_cluster import ServedCluster, a_served_cluster
from tests.support.server import eventually
from tests.support.streams import context_of

RULES = sorted(one.path for one in ROUTE_RULES if one.method == "GET")
SOON = timedelta(seconds=4)


@pytest.fixture(scope="module")
def served(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedCluster]:
    """A server with two readers."""
    directory = tmp_path_factory.mktemp("readers")
    with a_served_cluster(database_url, directory, settings_in(directory, readers=2)) as made:
        yield made


def settings_in(directory: Path, **changes: Any) -> Settings:
    storage = directory.as_uri()
    return Settings(data_dir=directory, storage=storage, data_root=directory / "data", **changes)


@pytest.fixture(scope="module")
def paths(served: ServedCluster) -> dict[str, str]:
    """A path of each route that readers answer, of things that there are."""

    async def make(cluster: Cluster) -> dict[str, str]:
        job, runner = await cluster.running(a_document())
        taken = await cluster.http.post(f"/v1/jobs/{job}/checkpoints", json={})
        await runner.ack(taken.json()["number"], *EVERYONE)
        begun = await cluster.http.post(
            f"/v1/jobs/{job}/savepoints", json={"target-directory": None, "cancel-job": False}
        )
        operation = UUID(begun.raise_for_status().json()["request-id"]).hex
        listed = (await cluster.http.get("/v1/savepoints")).json()["items"]
        return {
            "jobid": job, "number": "1", "checkpointid": "1", "oid": operation,
            "sid": listed[0]["id"],
        }  # fmt: skip

    known = served.run(make)
    return {route: "/v1" + route.format(**known) for route in READER_ROUTES}


def answered_by_own(served: ServedCluster) -> int:
    """How many requests the server's own process has answered."""
    return served.served.http.server_state.total_requests


@pytest.mark.parametrize("route", sorted(READER_ROUTES))
def test_a_reader_answers_what_the_server_answers(
    served: ServedCluster, paths: dict[str, str], route: str
) -> None:
    before = answered_by_own(served)
    by_reader = httpx.get(served.url + paths[route], trust_env=False)
    after = answered_by_own(served)
    itself = served.run(lambda cluster: cluster.http.get(paths[route]))

    assert before == after, "the server's own process answered"
    assert by_reader.status_code == itself.status_code == 200
    assert timeless(by_reader.json()) == timeless(itself.json())
    of_content = ("content-length", "etag")
    own = {name: value for name, value in itself.headers.items() if name not in of_content}
    assert own.items() <= dict(by_reader.headers).items()
    if by_reader.content == itself.content:
        assert by_reader.headers["etag"] == itself.headers["etag"]
        known = {"If-None-Match": itself.headers["etag"]}
        assert httpx.get(served.url + paths[route], headers=known).status_code == 304


def test_what_is_no_plain_read_is_answered_by_the_server_itself(served: ServedCluster) -> None:
    before = answered_by_own(served)
    with httpx.Client(base_url=served.url, trust_env=False) as http:
        answers = [http.get(path).status_code for path in ("/healthz", "/readyz", "/metrics")]
        missing = http.get("/v1/nothing")
        strange = http.get("/v1/jobs", headers={"Host": "elsewhere.example"})

    assert answers == [200, 200, 200]
    assert missing.status_code == 404
    assert strange.status_code == 403
    # The connection stays where it has gone. An answer is counted a moment after it is sent.
    eventually(lambda: answered_by_own(served) == before + 5, within=30)


def test_a_write_is_seen_by_every_read_that_follows(served: ServedCluster) -> None:
    """Through the same connection, and through any other, on both readers."""
    with httpx.Client(base_url=served.url, trust_env=False) as http:
        for number in range(10):
            document = a_document(name=f"written {number}")
            assert http.get("/jobs").status_code == 200
            job = http.post("/v1/jobs", json=document).json()["jobid"]
            assert http.get(f"/v1/jobs/{job}/status").json()["state"] == "starting"
            for _ in range(4):
                found = httpx.get(f"{served.url}/v1/jobs/{job}/status", trust_env=False)
                assert found.status_code == 200
            http.patch(f"/v1/jobs/{job}").raise_for_status()
            for _ in range(4):
                found = httpx.get(f"{served.url}/v1/jobs/{job}/status", trust_env=False)
                assert found.json()["state"] in ("cancelling", "cancelled")


def test_a_body_that_comes_in_pieces_arrives_whole(served: ServedCluster) -> None:
    """Its first piece is handed over, the next ones are read by the server's own process."""
    body = json.dumps({**a_document(name="in pieces"), "spaces": None}).encode()
    body = body.replace(b', "spaces": null', b" " * 3_000_000)
    head = f"POST /v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n"
    text = head.replace("Host: a", "Host: localhost") + "Content-Type: application/json\r\n\r\n"
    with connected(served) as client:
        for piece in pieces(text.encode() + body, 300_000):
            client.sendall(piece)
            time.sleep(0.01)
        assert answer_on(client)[0] == 202


def test_heads_may_come_byte_by_byte_and_several_at_once(served: ServedCluster) -> None:
    get = b"GET /jobs HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with connected(served) as client:
        for piece in pieces(get, 1):
            client.sendall(piece)
        assert answer_on(client)[0] == 200
        client.sendall(get * 5 + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" + get)
        answers = [answer_on(client) for _ in range(7)]

    assert [status for status, _ in answers] == [200] * 7
    assert json.loads(answers[5][1]) == {"status": "alive"}
    assert answers[6][1] == answers[0][1]


@pytest.mark.parametrize(
    "text",
    [
        b"NONSENSE\r\n\r\n",
        b"GET /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"GET /jobs HTTP/1.1\r\nno colon\r\n\r\n",
    ],
)
def test_what_is_not_http_is_refused(served: ServedCluster, text: bytes) -> None:
    with connected(served) as client:
        client.sendall(text)
        assert answer_on(client)[0] == 400


def test_a_head_that_is_too_large_is_refused(served: ServedCluster) -> None:
    with connected(served) as client:
        client.sendall(b"GET /jobs HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 70_000)
        assert answer_on(client)[0] == 431


async def _many(url: str, count: int) -> set[int]:
    limits = httpx.Limits(max_connections=count)
    async with httpx.AsyncClient(base_url=url, trust_env=False, limits=limits, timeout=60) as http:
        found = await asyncio.gather(
            *(http.get("/jobs") for _ in range(count)),
            *(http.get("/healthz") for _ in range(count)),
        )
    return {one.status_code for one in found}


def test_many_connections_at_once_are_all_answered(served: ServedCluster) -> None:
    assert asyncio.run(_many(served.url, 100)) == {200}


def test_the_metrics_tell_of_the_readers(served: ServedCluster) -> None:
    asked = 20
    for _ in range(asked):
        httpx.get(f"{served.url}/jobs", trust_env=False).raise_for_status()
    time.sleep(2.5)  # reports come each second
    text = httpx.get(f"{served.url}/metrics", trust_env=False).text
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))

    assert float(lines["headgate_readers"]) == float(lines["headgate_readers_ready"]) == 2
    assert float(lines['headgate_reader_cpu_seconds_total{reader="1"}']) > 0
    assert float(lines['headgate_reader_resident_bytes{reader="2"}']) > 1_000_000
    of_jobs = (
        'headgate_http_request_duration_seconds_count{method="GET",route="/jobs",status="200"}'
    )
    assert float(lines[of_jobs]) >= asked


# ── tokens and roles ──────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def guarded(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedCluster]:
    """A server with a reader that needs tokens."""
    directory = tmp_path_factory.mktemp("guarded")
    settings = settings_in(directory, readers=1, require_tokens=True, head_timeout=SOON)

    def need_tokens(cluster: Cluster) -> None:
        access = AccessControl(cluster.database.tokens, cluster.clock, needs_tokens=True)
        cluster.app.state.context = replace(context_of(cluster.app), access=access)

    with a_served_cluster(database_url, directory, settings, need_tokens) as made:
        yield made


def test_tokens_and_roles_hold_on_readers_as_on_the_server(guarded: ServedCluster) -> None:
    """Every read, whoever answers it, against every role, without a token, and with a wrong one."""

    async def make(cluster: Cluster) -> dict[str, str | None]:
        access = context_of(cluster.app).access
        made = {str(role): (await access.create(f"r-{role}", role, None)).text for role in Role}
        return {**made, "nobody": None, "unknown": "hg_" + "0" * 40, "malformed": "x"}

    tokens = guarded.run(make)
    asked = [path for path in RULES if path in READER_ROUTES or path in ("/tokens", "/audit")]
    for path in asked:
        url = "/v1" + path.replace("{number}", "1").replace("{checkpointid}", "1")
        for name in ("{jobid}", "{sid}", "{oid}"):
            url = url.replace(name, "0" * 32)
        for who, token in tokens.items():
            shown = {"Authorization": f"Bearer {token}"} if token else {}
            found = httpx.get(guarded.url + url, headers=shown, trust_env=False)

            def ask(cluster: Cluster, url: str = url, shown: Any = shown) -> Any:
                return cluster.http.get(url, headers=shown)

            expected = guarded.run(ask)
            assert found.status_code == expected.status_code, (url, who)
            assert timeless(found.json()) == timeless(expected.json()), (url, who)
            if who in ("nobody", "unknown", "malformed"):
                assert found.status_code == 401


def test_a_revoked_token_is_refused_by_readers_at_once(guarded: ServedCluster) -> None:
    async def make(cluster: Cluster) -> str:
        return (await context_of(cluster.app).access.create("brief", Role.VIEWER, None)).text

    async def revoke(cluster: Cluster) -> None:
        await context_of(cluster.app).access.revoke("brief")

    shown = {"Authorization": f"Bearer {guarded.run(make)}"}
    with httpx.Client(base_url=guarded.url, headers=shown, trust_env=False) as http:
        assert http.get("/jobs").status_code == 200
        guarded.run(revoke)
        time.sleep(0.1)  # less than the second for which a token is known
        assert http.get("/jobs").status_code == 401


def timeless(answer: Any) -> Any:
    """Without what depends on the clock: that of the test stands still."""
    if isinstance(answer, dict):
        clocked = ("duration", "now", "since", "until")
        return {name: timeless(one) for name, one in answer.items() if name not in clocked}
    return [timeless(one) for one in answer] if isinstance(answer, list) else answer


@pytest.mark.parametrize("before", [b"", b"GET /jobs HTTP/1.1\r\nHost: localhost\r\n\r\n"])
def test_a_head_that_does_not_end_is_given_up(guarded: ServedCluster, before: bytes) -> None:
    """As the first request of a connection, and as a later one."""
    with connected(guarded) as client:
        if before:
            client.sendall(before)
            assert answer_on(client)[0] == 401
        client.sendall(b"GET /jobs HTTP/1.1\r\nHost: local")
        status, _ = answer_on(client)
        assert status == 408


def test_a_connection_that_says_nothing_is_closed(guarded: ServedCluster) -> None:
    with connected(guarded) as client:
        assert client.recv(1) == b""


# ── raw connections ───────────────────────────────────────────────────────────


def connected(served: ServedCluster) -> socket.socket:
    host, _, port = served.url.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=30)


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


def answer_on(client: socket.socket) -> tuple[int, bytes]:
    """The next answer, and not a byte more."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = client.recv(1)
        assert byte, f"the connection was closed after {head!r}"
        head += byte
    length = next(
        int(line.partition(b":")[2])
        for line in head.lower().split(b"\r\n")
        if line.startswith(b"content-length")
    )
    body = b""
    while len(body) < length:
        body += client.recv(length - len(body))
    return int(head.split()[1]), body
