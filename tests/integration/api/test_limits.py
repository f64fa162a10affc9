"""Floods, slow clients and large bodies: each is bounded, and none takes the others with it."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from uuid import uuid4

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import text

from jobmanager.api.app import make_app
from jobmanager.api.limits import Lane
from jobmanager.server_parts import http_server
from jobmanager.settings import Settings
from tests.support import streams
from tests.support.builders import a_document
from tests.support.cluster import Cluster

pytestmark = pytest.mark.anyio
BODY_WITHIN = 2.0


@pytest.fixture
async def served(cluster: Cluster) -> AsyncIterator[str]:
    """The cluster's routes behind narrow limits, on a port."""
    app: FastAPI = make_app(
        BODY_WITHIN,
        lambda: {
            "reads": Lane(at_once=2, waiting=10),
            "writes": Lane(at_once=2, waiting=3, patience=1.0),
            "runners": Lane(at_once=2, waiting=10),
            "gathered": Lane(at_once=2, waiting=10),
            "slow": Lane(at_once=2, waiting=10),
        },
    )
    app.state.context = cluster.app.state.context
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = http_server(app, Settings())
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        await serving


async def transactions(cluster: Cluster) -> int:
    """Sessions on this database that are inside a transaction, this one apart."""
    async with cluster.database.engine.connect() as connection:
        found = await connection.scalar(
            text(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                " AND pid <> pg_backend_pid() AND state LIKE 'idle in transaction%'"
            )
        )
    return int(found or 0)


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def slowly(url: str, path: str, body: bytes, *headers: str) -> Connection:
    """Sends the head of a request and half of its body, and then nothing."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = [f"POST {path} HTTP/1.1", f"Host: {host}", "Content-Type: application/json"]
    head += [f"Content-Length: {len(body)}", *headers, "", ""]
    writer.write("\r\n".join(head).encode() + body[: len(body) // 2])
    await writer.drain()
    return reader, writer


async def test_clients_that_send_slowly_hold_no_transaction_and_no_turn(
    cluster: Cluster, served: str
) -> None:
    job, runner = await cluster.running(a_document())
    submission = json.dumps(a_document()).encode()
    beat = json.dumps({"job": str(runner.job), "attempt": 1, "regions": []}).encode()
    token = f"Authorization: Bearer {runner.secret}"

    slow = [await slowly(served, "/v1/jobs", submission) for _ in range(5)]
    slow += [
        await slowly(served, f"/v1/runners/{runner.id}/heartbeat", beat, token) for _ in range(5)
    ]
    await asyncio.sleep(0.2)

    assert await transactions(cluster) == 0
    async with httpx.AsyncClient(base_url=served) as http:
        assert (await http.post("/v1/jobs", json=a_document())).status_code == 202
        assert (await http.get(f"/v1/jobs/{job}/status")).status_code == 200
    for reader, writer in slow:  # and they are not waited for without end
        async with asyncio.timeout(BODY_WITHIN + 30):
            assert b"408" in await reader.readline()
        writer.close()
        await writer.wait_closed()


async def test_a_flood_of_writes_is_told_to_come_back_and_reads_go_on(
    cluster: Cluster, served: str
) -> None:
    job, runner = await cluster.running(a_document())
    async with (
        httpx.AsyncClient(base_url=served, timeout=20) as http,
        cluster.database.engine.connect() as elsewhere,
    ):
        # Postgres is slow: somebody has the job's lock.
        await elsewhere.execute(text("SELECT 1 FROM jobs FOR UPDATE"))
        path, problem = f"/v1/jobs/{job}/checkpoints", {"Accept": "application/problem+json"}
        flood = [asyncio.create_task(http.post(path, headers=problem)) for _ in range(12)]
        # Two are at work; three wait for a turn, in vain, and seven are too many.
        answers = asyncio.as_completed(flood, timeout=30)
        refused = [await next(answers) for _ in range(10)]
        under_way = [task for task in flood if not task.done()]

        assert len(under_way) == 2
        for answer in refused:
            assert answer.status_code == 503
            assert answer.json()["type"] == "/problems/TooBusy"
            assert answer.headers["retry-after"] == "2"
        assert (await http.get(f"/v1/jobs/{job}/status")).status_code == 200
        beat = {"job": str(runner.job), "attempt": 1, "regions": []}
        there = replace(runner, http=http)
        assert (await there.post("heartbeat", beat)).status_code == 200

        await elsewhere.rollback()
        accepted = [await task for task in under_way]
    assert [answer.status_code for answer in accepted] == [202, 202]


async def test_a_body_that_is_too_large_is_refused_with_and_without_a_length(
    cluster: Cluster, served: str
) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(17):
            yield b" " * 1024 * 1024

    large, headers = b" " * (16 * 1024 * 1024 + 1), {"Content-Type": "application/json"}
    async with httpx.AsyncClient(base_url=served, timeout=20) as http:
        told = await http.post("/v1/jobs", content=large, headers=headers)
        found_out = await http.post("/v1/jobs", content=chunks(), headers=headers)

    assert [told.status_code, found_out.status_code] == [413, 413]
    assert told.json()["type"] == found_out.json()["type"] == "/problems/BodyTooLarge"


def chunks_of(size: int) -> AsyncIterator[bytes]:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(size // 32_768):
            yield b" " * 32_768

    return chunks()


async def test_a_body_that_nobody_asked_for_is_refused(cluster: Cluster, served: str) -> None:
    """Open routes ask nobody for a token: a stranger could fill what bodies may take together."""
    async with httpx.AsyncClient(base_url=served, timeout=20) as http:
        for path in ("/healthz", "/openapi.json", "/v1/jobs"):
            answer = await http.request("GET", path, content=chunks_of(2**20))
            assert answer.status_code == 413, answer.text


async def test_a_large_body_is_taken_only_from_a_runner_that_is_known(
    cluster: Cluster, served: str
) -> None:
    _, runner = await cluster.running(a_document())
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {runner.secret}"}
    wrong = {**headers, "Authorization": "Bearer wrong"}
    path = f"/v1/runners/{runner.id}/acks"
    async with httpx.AsyncClient(base_url=served, timeout=20) as http:
        known = await http.post(path, content=chunks_of(2**20), headers=headers)
        stranger = await http.post(path, content=chunks_of(2**20), headers=wrong)
        nobody = await http.post(
            f"/v1/runners/{uuid4()}/acks", content=chunks_of(2**20), headers=wrong
        )

    assert (known.status_code, "JSON" in known.text) == (400, True), known.text
    assert (stranger.status_code, nobody.status_code) == (401, 404), nobody.text
    assert stranger.headers["connection"] == "close"


async def test_a_body_of_which_nothing_arrives_is_given_up_early(
    cluster: Cluster, served: str
) -> None:
    app = make_app(body_within=60.0, body_idle=0.3)
    app.state.context = cluster.app.state.context
    async with streams.served(app, Settings()) as url:
        reader, writer = await slowly(url, "/v1/jobs", b"{}" * 100)
        async with asyncio.timeout(30):
            answer = await reader.read()
        writer.close()

    assert b" 408 " in answer
    assert b"nothing of the body arrived for 0.3 s" in answer


async def test_an_address_that_postgres_cannot_hold_is_refused(served: str) -> None:
    async with httpx.AsyncClient(base_url=served) as http:
        for path in ("/v1/jobs/summary?state=%00l", "/v1/jobs/summary?text=a%00", "/v1/jobs/%00"):
            answer = await http.get(path)
            assert (answer.status_code, "NUL" in answer.text) == (400, True), answer.text
            # a native route answers as native routes do, though no route has seen the request
            is_native = "summary" in path
            assert ("problem" in answer.headers["content-type"]) is is_native


async def test_a_body_that_postgres_cannot_hold_is_refused(served: str) -> None:
    async with httpx.AsyncClient(base_url=served) as http:
        for path in ("/v1/scripts/describe", "/v1/savepoints/adopt", "/v1/jobs"):
            answer = await http.post(path, json={"artifacts": ["a\0b"]})
            assert (answer.status_code, "NUL" in answer.text) == (400, True), answer.text
        # which is no NUL, but a backslash and what follows it
        answer = await http.post("/v1/scripts/describe", json={"artifacts": ["\\u0000"]})
        assert "NUL" not in answer.text
