"""ETag and If-None-Match: what has not changed is not sent again, and nobody is told too little."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from jobmanager.api.context import ApiContext
from jobmanager.client import AsyncClient, Client
from jobmanager.core.access.roles import Role
from jobmanager.services.access_control import AccessControl
from tests.support.builders import a_document
from tests.support.cluster import EVERYONE, Cluster
from tests.support.served_cluster import ServedCluster, a_served_cluster

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def served(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedCluster]:
    with a_served_cluster(database_url, tmp_path_factory.mktemp("served")) as made:
        yield made


READS = (
    "/jobs",
    "/jobs/overview",
    "/jobs/{job}",
    "/jobs/{job}/config",
    "/jobs/{job}/checkpoints",
    "/v1/jobs/{job}/graph",
    "/v1/jobs/{job}/history",
    "/v1/jobs/{job}/status",
    "/v1/jobs/summary?job={job}",
)


@pytest.mark.parametrize("path", READS)
async def test_a_read_is_answered_304_until_its_answer_changes(cluster: Cluster, path: str) -> None:
    job, _ = await cluster.running(a_document())
    path = path.format(job=job)
    first = await cluster.http.get(path)
    known = {"If-None-Match": first.headers["etag"]}

    again = await cluster.http.get(path, headers=known)
    other = await cluster.http.get(path, headers={"If-None-Match": '"0", W/"1"'})

    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"] == other.headers["etag"]
    assert "content-type" not in again.headers
    assert other.json() == first.json()
    assert first.headers["cache-control"] == "private, no-cache"
    assert "authorization" in first.headers["vary"].lower()


async def test_a_write_changes_the_tag_of_what_it_changed(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    paths = (f"/jobs/{job}/checkpoints", f"/v1/jobs/{job}/status")
    before = {path: (await cluster.http.get(path)).headers["etag"] for path in paths}

    number = (await cluster.http.post(f"/v1/jobs/{job}/checkpoints", json={})).json()["number"]
    assert await runner.ack(number, *EVERYONE) == "completed"

    for path, tag in before.items():
        answer = await cluster.http.get(path, headers={"If-None-Match": tag})
        assert answer.status_code == 200, path
        assert answer.headers["etag"] != tag


async def test_what_has_no_tag(cluster: Cluster) -> None:
    """Errors, what is not JSON, what is no read of a viewer, and what needs no role."""
    job = await cluster.submit(a_document())
    every = {"If-None-Match": "*"}

    missing = await cluster.http.get("/v1/jobs/" + "0" * 32, headers=every)
    assert missing.status_code == 404
    for path in ("/metrics", "/healthz", "/v1/tokens", "/v1/audit"):
        answer = await cluster.http.get(path, headers=every)
        assert answer.status_code == 200, path
        assert "etag" not in answer.headers
    written = await cluster.http.patch(f"/v1/jobs/{job}?mode=cancel", headers=every)
    assert written.status_code == 202
    assert "etag" not in written.headers


async def test_a_tag_lets_nobody_in(cluster: Cluster) -> None:
    context: ApiContext = cluster.app.state.context
    access = AccessControl(cluster.database.tokens, cluster.clock, needs_tokens=True)
    cluster.app.state.context = replace(context, access=access)
    token = (await access.create("a-reader", Role.VIEWER, None)).text
    shown = {"Authorization": f"Bearer {token}"}
    tag = (await cluster.http.get("/jobs", headers=shown)).headers["etag"]

    known = {"If-None-Match": tag}
    assert (await cluster.http.get("/jobs", headers=shown | known)).status_code == 304
    assert (await cluster.http.get("/jobs", headers=known)).status_code == 401
    await access.revoke("a-reader")
    assert (await cluster.http.get("/jobs", headers=shown | known)).status_code == 401


def test_the_clients_ask_only_for_what_has_changed(served: ServedCluster) -> None:
    answers: list[int] = []
    with Client(served.url) as client:
        client._http.event_hooks = {"response": [lambda one: answers.append(one.status_code)]}
        job = client.submit(a_document())
        read: list[Any] = [client.get_job_status(job.id) for _ in range(3)]

    assert answers == [202, 200, 304, 304]
    assert read[0] == read[1] == read[2]
    assert read[0]["state"] == "starting"


async def test_so_does_the_client_for_asyncio(served: ServedCluster) -> None:
    async with AsyncClient(served.url) as client:
        first = await client.get_jobs()
        second = await client.get_jobs()
        known = client._known

    assert first == second
    assert len(known._known) == 1
