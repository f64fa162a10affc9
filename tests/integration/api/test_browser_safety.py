"""What a web page could send to a server on the same machine, and what our own clients send."""

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from jobmanager.api.app import make_app
from jobmanager.client.client import HeadgateClient
from tests.support.builders import a_document
from tests.support.cluster import Cluster
from tests.support.streams import served

pytestmark = pytest.mark.anyio
OWN_PAGE = {"Origin": "http://headgate", "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}
OTHER_PAGE = {"Origin": "http://attacker.com", "Sec-Fetch-Site": "cross-site"}
OTHER_PORT = {"Origin": "http://headgate:3000", "Sec-Fetch-Site": "same-site"}
OLD_BROWSER = {"Origin": "http://attacker.com"}
FLINKS_CLIENT = {"Content-Type": "application/json; charset=UTF-8", "Accept": "*/*"}
CODE = b"def work(spark, rows):\n    return rows\n"


async def jobs_and_artifacts(cluster: Cluster) -> tuple[Any, Any]:
    return (await cluster.get("/v1/jobs"))["jobs"], (await cluster.get("/v1/artifacts"))["items"]


# ── somebody else's page ──────────────────────────────────────────────────────


@pytest.mark.parametrize("page", [OTHER_PAGE, OTHER_PORT, OLD_BROWSER], ids=["new", "port", "old"])
@pytest.mark.parametrize("kind", ["text/plain", "application/json", "application/octet-stream"])
@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/artifacts?name=a.py", "/v1/gc"])
async def test_another_page_posts_nothing(
    cluster: Cluster, path: str, kind: str, page: Mapping[str, str]
) -> None:
    before = await jobs_and_artifacts(cluster)

    headers = {**page, "Content-Type": kind}
    answer = await cluster.http.post(path, content=b'{"name": "x"}', headers=headers)

    assert answer.status_code == 403, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == "/problems/CrossSiteRequest"
    assert page["Origin"] in answer.json()["detail"]
    assert await jobs_and_artifacts(cluster) == before


@pytest.mark.parametrize(
    ("path", "content"),
    [("/v1/jobs", b'{"name": "x"}'), ("/v1/artifacts?name=a.py", CODE), ("/v1/gc", b"x=1")],
)
@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
async def test_a_form_is_refused_by_its_content_type_where_a_browser_tells_nothing_else(
    cluster: Cluster, path: str, content: bytes, kind: str
) -> None:
    before = await jobs_and_artifacts(cluster)

    answer = await cluster.http.post(path, content=content, headers={"Content-Type": kind})

    assert answer.status_code == 415, answer.text
    assert answer.json()["type"] == "/problems/UnsupportedContentType"
    assert "send the body as application/" in answer.json()["detail"]
    assert await jobs_and_artifacts(cluster) == before


async def test_a_body_without_a_content_type_is_refused(cluster: Cluster) -> None:
    for path in ("/v1/jobs", "/v1/artifacts?name=a.py", "/v1/scripts/describe"):
        assert (await cluster.http.post(path, content=CODE)).status_code == 415


async def test_a_name_that_was_bound_to_this_machine_reads_and_writes_nothing(
    cluster: Cluster,
) -> None:
    rebound = {
        "Host": "attacker.com:8081",
        "Origin": "http://attacker.com:8081",
        "Sec-Fetch-Site": "same-origin",  # as it is, to the browser
    }
    asked = [
        await cluster.http.get("/v1/artifacts", headers=rebound),
        await cluster.http.get("/", headers=rebound),
        await cluster.http.post("/v1/jobs", json=a_document(), headers=rebound),
        await cluster.http.post("/v1/gc", headers=rebound),
    ]

    for answer in asked:
        assert answer.status_code == 403, answer.text
        assert answer.json()["type"] == "/problems/UnknownHost"
        assert "--allow-host attacker.com" in answer.json()["detail"]


async def test_flinks_routes_refuse_in_flinks_words(cluster: Cluster) -> None:
    job = await cluster.submit(a_document())
    refused = [
        await cluster.http.patch(f"/jobs/{job}?mode=cancel", headers=OTHER_PAGE),
        await cluster.http.post(f"/v1/jobs/{job}/stop", content=b"{}"),
        await cluster.http.get("/jobs/overview", headers={"Host": "attacker.com"}),
    ]

    assert [answer.status_code for answer in refused] == [403, 415, 403]
    for answer in refused:
        assert list(answer.json()) == ["errors"]
    assert await cluster.state(job) in ("INITIALIZING", "CREATED")


async def test_another_page_opens_no_stream(cluster: Cluster) -> None:
    job = await cluster.submit(a_document())
    for path in ("/v1/events", f"/v1/jobs/{job}/events", f"/v1/jobs/{job}/logs?follow=true"):
        async with asyncio.timeout(10):  # a stream that is not refused never ends
            answer = await cluster.http.get(path, headers=OTHER_PAGE)
        assert answer.status_code == 403, path


async def test_another_page_is_allowed_nothing_in_advance(cluster: Cluster) -> None:
    wish = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-a"}
    asked = [
        await cluster.http.options("/v1/jobs", headers={**OTHER_PAGE, **wish}),
        await cluster.http.get("/v1/jobs", headers=OTHER_PAGE),
    ]

    for answer in asked:
        assert [name for name in answer.headers if name.startswith("access-control")] == []
    assert asked[0].status_code == 405


# ── our own page, and programs ────────────────────────────────────────────────


async def test_the_dashboard_submits_cancels_and_collects(cluster: Cluster) -> None:
    made = await cluster.http.post("/v1/jobs", json=a_document(), headers=OWN_PAGE)
    job = made.json()["jobid"]
    cancelled = await cluster.http.patch(f"/v1/jobs/{job}?mode=cancel", headers=OWN_PAGE)
    collected = await cluster.http.post("/v1/gc?dry_run=true", headers=OWN_PAGE)

    answered = [made.status_code, cancelled.status_code, collected.status_code]
    assert answered == [202, 202, 200]


@pytest.mark.parametrize("host", ["localhost:8081", "127.0.0.1:8081", "[::1]:8081", "10.1.2.3"])
async def test_curl_needs_no_more_than_the_content_type(cluster: Cluster, host: str) -> None:
    curl = {"Host": host, "User-Agent": "curl/8.5.0", "Accept": "*/*"}
    yaml = {**curl, "Content-Type": "application/yaml"}

    submitted = await cluster.http.post("/v1/jobs?dry_run=true", content=b"{}", headers=yaml)
    collected = await cluster.http.post("/v1/gc?dry_run=true", headers=curl)

    assert (submitted.status_code, submitted.json()["plan"]) == (200, None)
    assert collected.status_code == 200


async def test_flinks_clients_are_answered(cluster: Cluster) -> None:
    job, _ = await cluster.running(a_document())

    savepoint = await cluster.http.post(
        f"/jobs/{job}/savepoints", content=b'{"cancel-job": false}', headers=FLINKS_CLIENT
    )
    cancel = await cluster.http.patch(f"/jobs/{job}?mode=cancel", headers=FLINKS_CLIENT)

    assert (savepoint.status_code, cancel.status_code) == (202, 202)


async def test_the_python_client_uploads(cluster: Cluster) -> None:
    async with served(cluster.app) as url:
        with HeadgateClient(url) as client:
            made = await asyncio.to_thread(client.upload_artifact, "mine.py", CODE)

    assert made["name"] == "mine.py"


# ── every answer ──────────────────────────────────────────────────────────────


async def test_every_answer_tells_browsers_to_be_careful(cluster: Cluster) -> None:
    asked = [
        await cluster.http.get("/"),
        await cluster.http.get("/docs"),
        await cluster.http.get("/v1/jobs"),
        await cluster.http.get("/nothing"),
        await cluster.http.post("/v1/gc", headers=OTHER_PAGE),
        await cluster.http.get("/", headers={"Host": "attacker.com"}),
        await cluster.http.post("/v1/jobs", content=b"{", headers=FLINKS_CLIENT),
        await of_a_bug(),
    ]

    for answer in asked:
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    policies = [answer.headers["content-security-policy"] for answer in asked]
    assert policies[0].startswith("default-src 'self'; style-src")
    assert "script-src 'self' 'unsafe-inline'" in policies[1]
    assert all(policy.startswith("default-src 'none'") for policy in policies[2:5])
    assert asked[-1].status_code == 500


async def of_a_bug() -> httpx.Response:
    """The answer of a server that has no context yet: a 500."""
    transport = httpx.ASGITransport(make_app(), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        return await http.get("/v1/jobs")
