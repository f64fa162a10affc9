"""A graph whose schemas are in a registry: looked up once, when it is submitted."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobmanager.files.resolved_places import path_rules
from tests.support.answering_server import Answers, an_answering_server
from tests.support.cluster import Cluster

pytestmark = pytest.mark.anyio
NARROW = {"type": "record", "name": "Bid", "fields": [{"name": "auction", "type": "long"}]}
WIDE = {**NARROW, "fields": [*NARROW["fields"], {"name": "price", "type": ["null", "long"]}]}
VERSIONS = "/subjects/bids-value/versions"


def a_version(version: int, number: int, schema: Any) -> tuple[int, Any]:
    return 200, {"version": version, "id": number, "schema": json.dumps(schema)}


def has_one_version(answers: Answers) -> None:
    first = a_version(1, 7, NARROW)
    answers.of = {
        f"GET {VERSIONS}": (200, [1]),
        f"GET {VERSIONS}/1": first,
        f"GET {VERSIONS}/latest": first,
    }


def has_two_versions(answers: Answers) -> None:
    second = a_version(2, 9, WIDE)
    answers.of |= {
        f"GET {VERSIONS}": (200, [1, 2]),
        f"GET {VERSIONS}/2": second,
        f"GET {VERSIONS}/latest": second,
    }


@pytest.fixture
def answers() -> Iterator[Answers]:
    with an_answering_server() as given:
        has_one_version(given)
        yield given


@pytest.fixture
def strict(cluster: Cluster, tmp_path: Path) -> Iterator[Cluster]:
    """A server with allowed paths."""
    before = cluster.app.state.context
    rules = path_rules(["kafka://broker:9092"], [], str(tmp_path))
    settings = replace(before.run_settings, paths=rules)
    cluster.app.state.context = replace(before, run_settings=settings)
    yield cluster
    cluster.app.state.context = before


def a_document(answers: Answers, sink: dict[str, Any] | None = None, **registry: Any) -> Any:
    source = {
        "id": "bids",
        "op": "source",
        "connector": "kafka",
        "servers": "broker:9092",
        "topic": "bids",
        "format": "avro",
        "registry": {"url": answers.url, **registry},
    }
    out = {"id": "out", "op": "sink", "inputs": ["bids"], **(sink or {"connector": "blackhole"})}
    return {"name": "from the registry", "vertices": [source, out]}


def a_sink(answers: Answers, **registry: Any) -> dict[str, Any]:
    return {
        "connector": "kafka",
        "servers": "broker:9092",
        "topic": "out",
        "format": "avro",
        "registry": {"url": answers.url, **registry},
    }


async def submitted(cluster: Cluster, document: Any, **headers: str) -> Any:
    answer = await cluster.http.post("/v1/jobs", json=document, headers=headers)
    assert answer.status_code == 202, answer.text
    return answer.json()["jobid"]


async def schema_of(cluster: Cluster, job: str) -> Any:
    graph = (await cluster.http.get(f"/v1/jobs/{job}/graph")).json()["graph"]
    return graph["vertices"][0]["registry"]["resolved"]


async def faults(cluster: Cluster, document: Any, **parameters: Any) -> dict[str, str]:
    answer = await cluster.http.post("/v1/jobs", json=document, params=parameters)
    return {one["field"]: one["message"] for one in answer.json().get("faults", [])}


async def test_the_schema_is_kept_with_its_id_and_version(
    cluster: Cluster, answers: Answers
) -> None:
    job = await submitted(cluster, a_document(answers))

    found = await schema_of(cluster, job)
    assert (found["id"], found["version"], found["schema"]) == (7, 1, NARROW)


async def test_a_repeated_submission_is_the_same_job_although_there_is_a_newer_schema(
    cluster: Cluster, answers: Answers
) -> None:
    key = {"Idempotency-Key": "registry-once"}
    job = await submitted(cluster, a_document(answers), **key)
    has_two_versions(answers)

    assert await submitted(cluster, a_document(answers), **key) == job
    assert (await schema_of(cluster, job))["version"] == 1
    # a new job takes the newest, and knows the schema of older records
    newer = await schema_of(cluster, await submitted(cluster, a_document(answers)))
    assert (newer["version"], newer["others"]) == (2, {"7": NARROW})


async def test_the_stored_graph_of_a_job_keeps_its_schema_when_it_is_submitted_again(
    cluster: Cluster, answers: Answers
) -> None:
    job = await submitted(cluster, a_document(answers))
    stored = (await cluster.http.get(f"/v1/jobs/{job}/graph")).json()["graph"]
    has_two_versions(answers)
    asked = len(answers.asked)

    again = await submitted(cluster, stored)
    assert (await schema_of(cluster, again))["version"] == 1
    assert len(answers.asked) == asked


async def test_what_the_registry_lacks_is_a_fault_of_the_graph(
    cluster: Cluster, answers: Answers
) -> None:
    missing = a_document(answers, subject="other")
    unknown_secret = a_document(answers, user="me", password="${secret:no_such_registry}")

    assert "register: true" in (await faults(cluster, missing))["registry"]
    assert "no_such_registry" in (await faults(cluster, unknown_secret))["registry.password"]
    # what the schema says is checked against the graph
    watermark = a_document(answers)
    watermark["vertices"][0]["watermark"] = {"column": "ts"}
    assert "ts" in (await faults(cluster, watermark))["watermark.column"]


async def test_a_secret_is_looked_up_and_not_stored(
    cluster: Cluster, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_SECRET_REGISTRY", "sw0rdfish")
    job = await submitted(cluster, a_document(answers, user="me", password="${secret:registry}"))

    assert answers.headers[-1]["Authorization"].startswith("Basic ")
    shown = (await cluster.http.get(f"/v1/jobs/{job}/graph")).text
    assert "${secret:registry}" in shown
    assert "sw0rdfish" not in shown


async def test_nothing_is_registered_unless_a_sink_says_so(
    cluster: Cluster, answers: Answers
) -> None:
    told = {**a_sink(answers, register=True), "schema": NARROW}
    missing = (404, {"message": "Subject not found."})
    written = a_version(1, 11, NARROW)
    answers.of["POST /subjects/out-value"] = missing
    answers.of["GET /subjects/out-value/versions/latest"] = missing

    assert "registry" in await faults(cluster, a_document(answers, a_sink(answers)))
    assert await faults(cluster, a_document(answers, told), dry_run=True) == {}
    assert not any(asked == "POST /subjects/out-value/versions" for asked, _ in answers.asked)

    answers.of |= {
        "POST /subjects/out-value": [missing, written],
        "POST /subjects/out-value/versions": (200, {"id": 11}),
        "GET /subjects/out-value/versions": (200, [1]),
        "GET /subjects/out-value/versions/1": written,
    }
    job = await submitted(cluster, a_document(answers, told))
    graph = (await cluster.http.get(f"/v1/jobs/{job}/graph")).json()["graph"]
    assert graph["vertices"][1]["registry"]["resolved"]["id"] == 11


async def test_a_registry_that_is_not_allowed_is_not_asked(
    strict: Cluster, answers: Answers
) -> None:
    found = await faults(strict, a_document(answers))

    assert "registry.url" in found
    assert answers.asked == []


async def test_the_plan_of_an_upgrade_says_which_fields_a_newer_version_has(
    cluster: Cluster, answers: Answers
) -> None:
    job = await submitted(cluster, a_document(answers))
    has_two_versions(answers)

    answer = await cluster.http.post(
        f"/v1/jobs/{job}/upgrade", json=a_document(answers), params={"dry_run": True}
    )
    changes = {one["field"]: (one["before"], one["after"]) for one in answer.json()["changes"]}
    assert changes == {
        "registry.resolved.version": (1, 2),
        "registry.resolved.id": (7, 9),
        "registry.resolved.schema.price": (None, ["null", "long"]),
    }
