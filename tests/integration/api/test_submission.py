"""What is accepted, what is refused, and how."""

from typing import Any

import pytest
import yaml

from jobmanager.protocol.inspection import Analysed, AnalysisFault, SparkPlan
from tests.support.builders import a_document, a_document_with
from tests.support.cluster import Cluster

pytestmark = pytest.mark.anyio


async def test_yaml_is_as_good_as_json(cluster: Cluster) -> None:
    answer = await cluster.http.post(
        "/v1/jobs",
        content=yaml.safe_dump(a_document()),
        headers={"Content-Type": "application/yaml"},
    )

    assert answer.status_code == 202
    job = answer.json()["jobid"]
    assert len(job) == 32
    assert (await cluster.get(f"/v1/jobs/{job}/graph"))["graph"] == a_document()


async def test_the_order_of_columns_is_kept(cluster: Cluster) -> None:
    columns = {"revenue": "sum(price)", "n": "count(*)", "a": "max(price)"}
    job = await cluster.submit(a_document_with("revenue", aggregate=columns))

    graph = (await cluster.get(f"/v1/jobs/{job}/graph"))["graph"]

    assert list(graph["vertices"][2]["aggregate"]) == ["revenue", "n", "a"]


async def test_five_faults_get_one_answer_that_names_all_five(cluster: Cluster) -> None:
    document = a_document(parallelism=7, nonsense=1)
    document["checkpointing"] = {"interval": "soon"}
    document["vertices"][1]["op"] = "fliter"
    document["vertices"][3]["format"] = "xml"
    jobs_before = (await cluster.get("/v1/jobs"))["jobs"]

    answer = await cluster.http.post("/v1/jobs", json=document)

    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["title"] == "The job graph has faults"
    assert [(fault["vertex"], fault["field"]) for fault in problem["faults"]] == [
        (None, "parallelism"),
        (None, "checkpointing.interval"),
        ("big", "op"),
        ("out", "format"),
        (None, "nonsense"),
    ]
    assert (await cluster.get("/v1/jobs"))["jobs"] == jobs_before


@pytest.mark.parametrize(
    ("body", "kind", "told"),
    [
        (b"{", "application/json", "the body is not JSON"),
        (b"[]", "application/json", "the body is not a job graph"),
        (b"a: [", "application/yaml", "the body is not YAML"),
        (b"", "application/json", "the body is not JSON"),
        (b'{"name": "a\\u0000b"}', "application/json", "contains a NUL character"),
        (b'{"name": NaN}', "application/json", "cannot be kept as JSON"),
    ],
)
async def test_a_body_that_is_no_graph_is_refused(
    cluster: Cluster, body: bytes, kind: str, told: str
) -> None:
    answer = await cluster.http.post("/v1/jobs", content=body, headers={"Content-Type": kind})

    assert answer.status_code == 400
    assert told in answer.json()["detail"]


async def test_a_body_that_is_too_large_is_refused(cluster: Cluster) -> None:
    large, headers = b" " * (16 * 1024 * 1024 + 1), {"Content-Type": "application/json"}

    answer = await cluster.http.post("/v1/jobs", content=large, headers=headers)

    assert answer.status_code == 413


async def test_a_dry_run_shows_plan_or_faults_and_stores_nothing(cluster: Cluster) -> None:
    jobs_before = (await cluster.get("/v1/jobs"))["jobs"]

    good = await cluster.http.post("/v1/jobs?dry_run=true", json=a_document())
    bad = await cluster.http.post("/v1/jobs?dry_run=true", json=a_document(parallelism=7))

    assert good.status_code == bad.status_code == 200
    assert [node["headgate-vertices"] for node in good.json()["plan"]["nodes"]] == [
        ["bids", "big"],
        ["revenue", "out"],
    ]
    described = good.json()["plan"]["nodes"][1]["description"]
    assert described.startswith("revenue: window(tumbling 10s, key: auction, ")
    assert good.json()["faults"] == []
    assert bad.json()["plan"] is None
    assert bad.json()["faults"][0]["field"] == "parallelism"
    assert (await cluster.get("/v1/jobs"))["jobs"] == jobs_before


async def test_parallelism_can_be_given_with_the_submission(cluster: Cluster) -> None:
    job = await cluster.submit(a_document(), parallelism=3)

    owned: dict[str, Any] = await cluster.get(f"/v1/jobs/{job}/key-groups")

    assert owned["parallelism"] == 3
    [vertex] = owned["vertices"]
    assert vertex["vertex"] == "revenue"
    assert [one["key_groups"][:2] for one in vertex["subtasks"]] == [[0, 3], [1, 4], [2, 5]]
    refused = await cluster.http.post("/v1/jobs?parallelism=7", json=a_document())
    assert refused.status_code == 422


async def test_an_unknown_job_is_a_problem_on_native_routes(cluster: Cluster) -> None:
    answer = await cluster.http.get(f"/v1/jobs/{'0' * 32}/graph")

    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


async def test_health_and_documentation(cluster: Cluster) -> None:
    assert (await cluster.get("/healthz"))["status"] == "alive"
    assert (await cluster.get("/readyz"))["leader"] is True
    paths = (await cluster.get("/openapi.json"))["paths"]
    assert "/v1/jobs/{jobid}/checkpoints/{number}/verify" in paths
    page = await cluster.http.get("/docs")
    assert page.status_code == 200
    assert "https://" not in page.text, "the page must need no network"


async def test_spark_is_asked_before_a_graph_is_accepted(cluster: Cluster) -> None:
    fault = AnalysisFault(vertex="big", field="where", message="no column nosuch")
    cluster.inspector.answers = [Analysed(faults=[fault], plans=[])] * 2
    jobs_before = (await cluster.get("/v1/jobs"))["jobs"]

    answer = await cluster.http.post("/v1/jobs?analyse=true", json=a_document())
    tried = await cluster.http.post("/v1/jobs?analyse=true&dry_run=true", json=a_document())

    assert answer.status_code == 422
    assert answer.json()["faults"] == tried.json()["faults"] == [fault.model_dump()]
    assert (await cluster.get("/v1/jobs"))["jobs"] == jobs_before
    assert [one.kind for one in cluster.inspector.asked] == ["analyse_graph"] * 2


async def test_a_plan_has_sparks_own_where_it_is_asked_for(cluster: Cluster) -> None:
    job = await cluster.submit(a_document())
    plain = (await cluster.get(f"/v1/jobs/{job}/plan"))["plan"]["headgate-regions"]
    assert cluster.inspector.asked == []
    assert "spark-plan" not in plain[0]
    cluster.inspector.answers = [
        Analysed(faults=[], plans=[SparkPlan(region="out", text="== Physical Plan ==")])
    ]

    asked = (await cluster.get(f"/v1/jobs/{job}/plan?spark=true"))["plan"]["headgate-regions"]

    assert asked == [{**plain[0], "spark-plan": "== Physical Plan =="}]
