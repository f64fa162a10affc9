"""Requests that somebody made up who has read the code: each is refused in the caller's words, none
stops the server, and none makes it hold much more than was sent.
"""

import asyncio
import json

import httpx
import pytest

from tests.support.builders import a_document, a_document_with
from tests.support.cluster import EVERYONE, Cluster

pytestmark = pytest.mark.anyio
JSON = {"Content-Type": "application/json"}
YAML = {"Content-Type": "application/yaml"}
UPLOAD = {"Content-Type": "application/octet-stream"}
LONG = "x" * 100_000
LONE = "\ud800"


async def post_text(
    cluster: Cluster, path: str, text: str, headers: dict[str, str] = JSON
) -> httpx.Response:
    return await cluster.http.post(path, content=text.encode("utf-8"), headers=headers)


def is_refused(answer: httpx.Response, *statuses: int) -> bool:
    assert answer.status_code in (statuses or (400, 404, 409, 413, 422)), answer.text[:2000]
    return True


async def a_savepoint(cluster: Cluster) -> tuple[str, str]:
    job, runner = await cluster.running(a_document())
    await cluster.http.post(f"/v1/jobs/{job}/savepoints", json={})
    body = {**runner.acks(1, *EVERYONE), "manifest": "manifest.json"}
    assert (await runner.post("acks", body)).status_code == 200
    listed = (await cluster.get("/v1/savepoints"))["items"]
    return job, next(one["id"] for one in listed if one["job"] == job)


def nested(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


@pytest.mark.parametrize("depth", [150, 900, 100_000])
async def test_deep_json(cluster: Cluster, depth: int) -> None:
    document = json.dumps(a_document()).replace('"5s"', nested(depth))
    for path in ("/v1/jobs", "/v1/tokens", "/v1/savepoints/adopt"):
        assert is_refused(await post_text(cluster, path, nested(depth)))
        assert is_refused(await post_text(cluster, path, document))

    _, runner = await cluster.running(a_document())
    headers = {**JSON, "Authorization": f"Bearer {runner.secret}"}
    for call in ("heartbeat", "acks", "attempt", "register", "declines"):
        path = f"/v1/runners/{runner.id}/{call}"
        assert is_refused(await post_text(cluster, path, nested(depth), headers))


async def test_text_that_is_no_unicode(cluster: Cluster) -> None:
    job, savepoint = await a_savepoint(cluster)
    graph = json.dumps(a_document(name=f"a{LONE}"))
    hidden = json.dumps(a_document_with("big", where=f"price > '{LONE}'"))

    assert is_refused(await post_text(cluster, "/v1/jobs", graph))
    assert is_refused(await post_text(cluster, "/v1/jobs", hidden))
    assert is_refused(await post_text(cluster, f"/v1/jobs/{job}/upgrade", hidden))
    for path, body in (
        (f"/v1/jobs/{job}/savepoints", {"target-directory": f"/tmp/{LONE}"}),
        (f"/v1/jobs/{job}/stop", {"targetDirectory": f"/tmp/{LONE}"}),
        ("/v1/savepoint-disposal", {"savepoint-path": f"/tmp/{LONE}"}),
        ("/v1/savepoints/adopt", {"path": f"/tmp/{LONE}", "graph": a_document()}),
        ("/v1/scripts/describe", {"artifact": LONE, "script": LONE}),
        ("/v1/tokens", {"name": LONE, "role": "viewer"}),
    ):
        assert is_refused(await post_text(cluster, path, json.dumps(body)))
    labels = json.dumps({"labels": {"a": LONE}})
    answer = await cluster.http.patch(
        f"/v1/savepoints/{savepoint}", content=labels.encode(), headers=JSON
    )
    assert is_refused(answer)


async def test_json_in_another_encoding_hides_nothing(cluster: Cluster) -> None:
    _, savepoint = await a_savepoint(cluster)
    labels = json.dumps({"labels": {"a": "\0"}})
    for encoding in ("utf-16", "utf-16-le", "utf-32"):
        answer = await cluster.http.patch(
            f"/v1/savepoints/{savepoint}", content=labels.encode(encoding), headers=JSON
        )
        assert is_refused(answer, 400)


async def test_names_and_places_that_are_very_long(cluster: Cluster) -> None:
    job, savepoint = await a_savepoint(cluster)
    http = cluster.http

    assert is_refused(await http.post("/v1/jobs", json=a_document(name=LONG)))
    assert is_refused(await http.post("/v1/jobs", json=a_document(name="a\x1b[2J")))
    for changes in ({"id": LONG}, {"path": LONG}):
        await http.post("/v1/jobs?dry_run=true", json=a_document_with("out", **changes))
    assert is_refused(await http.post("/v1/jobs", json=a_document(artifacts=[LONG])))
    assert is_refused(
        await http.post("/v1/jobs", json=a_document(), params={"savepoint": f"/{LONG[:9000]}"})
    )
    await http.post(f"/v1/jobs/{job}/savepoints", json={"target-directory": f"/tmp/{LONG}"})
    adoption = {"path": f"/{LONG}", "graph": a_document()}
    asked = await http.post("/v1/savepoints/adopt", json=adoption)
    assert is_refused(asked, 422, 503)  # nobody plays the inspector, which would look at the path
    assert is_refused(await http.get(f"/v1/artifacts/{LONG[:9000]}"))
    assert is_refused(await http.get(f"/v1/jobs/{LONG[:9000]}"))
    for labels in (
        {LONG: "a"},
        {"a": LONG},
        {str(number): "" for number in range(1000)},
    ):
        answer = await http.patch(f"/v1/savepoints/{savepoint}", json={"labels": labels})
        assert is_refused(answer)


async def test_labels_do_not_grow_request_by_request(cluster: Cluster) -> None:
    _, savepoint = await a_savepoint(cluster)
    statuses = []
    for round_ in range(4):
        labels = {f"{round_}-{number}": "x" for number in range(40)}
        answer = await cluster.http.patch(f"/v1/savepoints/{savepoint}", json={"labels": labels})
        statuses.append(answer.status_code)

    assert statuses[0] == 200
    assert statuses[-1] == 422
    removed = await cluster.http.patch(
        f"/v1/savepoints/{savepoint}", json={"labels": {"0-0": None}}
    )
    assert removed.status_code == 200


NUMBERED = (
    "logs?attempt={0}",
    "logs?tail={0}",
    "history?limit={0}",
    "history?cursor={0}",
    "checkpoints/{0}",
    "checkpoints/details/{0}",
    "samples?points={0}",
    "exceptions?maxExceptions={0}",
    "state/revenue/default?limit={0}",
)


async def test_numbers_that_are_very_large(cluster: Cluster) -> None:
    job, _ = await cluster.running(a_document())

    for query in NUMBERED:
        for number in (10**9, 2**31, 2**63, 10**30, -1):
            answer = await cluster.http.get(f"/v1/jobs/{job}/{query.format(number)}")
            assert is_refused(answer, 200, 400, 404, 409), (query, number)


async def test_a_runner_says_numbers_that_are_very_large(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    headers = {"Authorization": f"Bearer {runner.secret}"}

    for number in (2**31, 2**63, 10**30):
        polled = await cluster.http.get(
            f"/v1/runners/{runner.id}/directives", params={"after": number}, headers=headers
        )
        assert is_refused(polled, 200, 400)
        beat = {"job": job, "attempt": number, "regions": []}
        assert is_refused(await runner.post("heartbeat", beat), 400, 403)
        acks = {**runner.acks(number, *EVERYONE), "bytes": number}
        assert is_refused(await runner.post("acks", acks), 400, 404)


LAUGHS = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    + ["name: *a11"]
)
MERGES = "\n".join(
    ["m0: &m0 {k: v}"]
    + [f"m{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 10)}]}}" for n in range(1, 12)]
)
ENDLESS = "name: &a [*a]"


@pytest.mark.parametrize("text", [LAUGHS, MERGES, ENDLESS])
async def test_yaml_that_refers_to_itself_again_and_again(cluster: Cluster, text: str) -> None:
    async with asyncio.timeout(60):
        answer = await post_text(cluster, "/v1/jobs", text, YAML)

    assert is_refused(answer, 400)
    assert "alias" in answer.text


async def test_yaml_may_name_a_part_twice(cluster: Cluster) -> None:
    text = (
        "name: twice\n"
        "vertices:\n"
        "- {id: a, op: source, connector: generator, rows_per_second: 1, columns: &c {n: id}}\n"
        "- {id: b, op: source, connector: generator, rows_per_second: 1, columns: *c}\n"
        "- {id: u, op: union, inputs: [a, b]}\n"
        "- {id: out, op: sink, inputs: [u], connector: blackhole}\n"
    )

    answer = await post_text(cluster, "/v1/jobs?dry_run=true", text, YAML)

    assert answer.json()["faults"] == []


async def test_yaml_that_is_long_is_refused_before_it_is_read(cluster: Cluster) -> None:
    answer = await post_text(cluster, "/v1/jobs", "a: b\n" * 300_000, YAML)

    assert is_refused(answer, 413)
    assert "JSON" in answer.json()["detail"]


async def test_a_path_that_ends_in_a_new_line_is_none(cluster: Cluster) -> None:
    """A route's pattern would match it, and a rule's would not."""
    for path in ("/v1/events%0A", "/v1/gc%0A", "/v1/artifacts%0a"):
        for method in ("GET", "POST"):
            answer = await cluster.http.request(method, path, headers=UPLOAD)
            assert is_refused(answer, 400, 415), (method, path)


async def test_nothing_leads_out_of_the_files_that_are_served(cluster: Cluster) -> None:
    for root in ("/assets", "/static-offline-docs"):
        for way in ("..%2f", "%2e%2e/", "%2e%2e%2f", "..%5c", "%2fetc/passwd%23", "....//"):
            answer = await cluster.http.get(f"{root}/{way * 6}etc/passwd")
            assert is_refused(answer, 400, 404), way
            assert "root:" not in answer.text
