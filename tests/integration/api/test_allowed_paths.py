"""A server with allowed paths, at each place where a path comes in."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobmanager.api.context import ApiContext
from jobmanager.core.paths.allowed_paths import roots_of
from jobmanager.files.resolved_places import path_rules
from jobmanager.protocol.inspection import Analysed, AnalyseGraph
from jobmanager.services.directive_polls import DirectivePolls
from jobmanager.services.directives import RunSettings
from jobmanager.settings import Settings
from tests.support.builders import a_document, a_document_with
from tests.support.cluster import Cluster

pytestmark = pytest.mark.anyio
NOT_ALLOWED = "is not allowed: this server allows"


@pytest.fixture
def restricted(cluster: Cluster, tmp_path: Path) -> Iterator[Cluster]:
    """Allows a directory, and as always the data root, and for snapshots the storage."""
    before: ApiContext = cluster.app.state.context
    (tmp_path / "data").mkdir()
    (tmp_path / "allowed").mkdir()
    places = before.run_settings
    found = roots_of(
        [str(tmp_path / "allowed")], places.data_root, [places.storage], takes_any=True
    )
    assert found is not None
    settings = replace(places, paths=path_rules(*found, places.data_root))
    cluster.app.state.context = replace(
        before,
        run_settings=settings,
        directive_polls=DirectivePolls(before.units, before.wakeups, settings),
    )
    yield cluster
    cluster.app.state.context = before


async def faults(cluster: Cluster, path: str, document: Any, **params: Any) -> list[Any]:
    answer = await cluster.http.post(path, json=document, params=params)
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    return [(one["vertex"], one["field"]) for one in answer.json()["faults"]]


def reading(path: str, out: str = "out") -> dict[str, Any]:
    """A sound job graph with two paths."""
    document = a_document_with("out", path=out)
    document["vertices"][0] = {
        "id": "bids",
        "op": "source",
        "connector": "files",
        "format": "json",
        "path": path,
        "schema": "auction BIGINT, price BIGINT, ts TIMESTAMP",
        "watermark": {"column": "ts", "delay": "5s"},
    }
    return document


def outside() -> dict[str, Any]:
    return reading("/etc/in", "../out")


async def test_every_path_of_a_submission_that_is_not_allowed_is_named(restricted: Cluster) -> None:
    answer = await restricted.http.post("/v1/jobs", json=outside())

    assert answer.status_code == 422
    told = answer.json()
    assert [(one["vertex"], one["field"]) for one in told["faults"]] == [
        ("bids", "path"),
        ("out", "path"),
    ]
    assert f"/etc/in {NOT_ALLOWED} {restricted.storage}/allowed" in told["faults"][0]["message"]
    assert (await restricted.get("/v1/jobs"))["jobs"] == []


async def test_a_graph_inside_of_the_roots_runs_and_its_runner_knows_the_roots(
    restricted: Cluster,
) -> None:
    path = f"file://{restricted.storage}/allowed/in"
    job = await restricted.submit(reading(path))
    [run] = await (await restricted.runner(job)).directives()

    allowed, data = str(restricted.storage / "allowed"), str(restricted.storage / "data")
    assert run["body"]["allowed_paths"] == {
        "graphs": [allowed, data],
        "snapshots": [allowed, data, str(restricted.storage)],
    }


async def test_the_state_of_other_jobs_is_no_place_for_a_graph(restricted: Cluster) -> None:
    document = a_document_with("out", path=f"{restricted.storage}/artifacts")

    assert await faults(restricted, "/v1/jobs", document) == [("out", "path")]


async def test_a_link_that_leads_out_is_refused(restricted: Cluster) -> None:
    (restricted.storage / "allowed" / "link").symlink_to("/etc")
    document = reading(f"{restricted.storage}/allowed/link/x")

    answer = await restricted.http.post("/v1/jobs", json=document)

    assert answer.status_code == 422
    assert "leads to /etc/x through a symbolic link" in answer.json()["detail"]


async def test_a_dry_run_tells_the_same_faults(restricted: Cluster) -> None:
    answer = await restricted.http.post("/v1/jobs?dry_run=true", json=outside())

    assert answer.status_code == 200
    assert [one["vertex"] for one in answer.json()["faults"]] == ["bids", "out"]


async def test_a_plan_of_an_upgrade_and_the_upgrade_are_refused(restricted: Cluster) -> None:
    job, _ = await restricted.running(a_document())

    for params in ({"dry_run": True}, {}):
        found = await faults(restricted, f"/v1/jobs/{job}/upgrade", outside(), **params)
        assert found == [("bids", "path"), ("out", "path")]


@pytest.mark.parametrize(
    ("route", "field"),
    [("savepoints", "target-directory"), ("stop", "targetDirectory")],
)
@pytest.mark.parametrize("target", ["/etc/savepoints", "../../savepoints", "file:///etc"])
async def test_a_savepoint_goes_to_allowed_places_only(
    restricted: Cluster, route: str, field: str, target: str
) -> None:
    job, _ = await restricted.running(a_document())

    answer = await restricted.http.post(f"/v1/jobs/{job}/{route}", json={field: target})

    assert answer.status_code == 422
    assert NOT_ALLOWED in answer.json()["errors"][0]


async def test_a_savepoint_may_go_into_the_storage_and_below_a_root(restricted: Cluster) -> None:
    job, _ = await restricted.running(a_document())
    for target in (None, f"{restricted.storage}/allowed/savepoints"):
        body = {"target-directory": target} if target else {}
        answer = await restricted.http.post(f"/v1/jobs/{job}/savepoints", json=body)
        assert answer.status_code == 202, answer.text


@pytest.mark.parametrize("path", ["/etc/savepoint", "file:///etc/savepoint", "s3://bucket/x"])
async def test_a_job_starts_from_allowed_places_only(restricted: Cluster, path: str) -> None:
    answer = await restricted.http.post("/v1/jobs", json=a_document(), params={"savepoint": path})
    tried = await restricted.http.post(
        "/v1/jobs", json=a_document(), params={"savepoint": path, "dry_run": True}
    )

    assert answer.status_code == 422
    assert NOT_ALLOWED in answer.json()["detail"] or "driver" in answer.json()["detail"]
    assert [one["field"] for one in tried.json()["faults"]] == ["savepoint"]


async def test_a_checkpoint_is_adopted_from_allowed_places_only(restricted: Cluster) -> None:
    body = {"path": "/etc/checkpoint", "graph": a_document()}
    answer = await restricted.http.post("/v1/savepoints/adopt", json=body)
    inside = {**body, "path": f"{restricted.storage}/allowed/c", "target_directory": "/etc/target"}
    other_target = await restricted.http.post("/v1/savepoints/adopt", json=inside)

    for one in (answer, other_target):
        assert one.status_code == 422
        assert NOT_ALLOWED in one.json()["detail"]
    assert restricted.inspector.asked == []


async def test_an_artifact_is_read_from_allowed_places_only(
    restricted: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "code.py").write_text("x = 1\n")
    (tmp_path / "allowed" / "code.py").write_text("x = 1\n")
    for named in (str(tmp_path / "code.py"), "../code.py"):
        answer = await restricted.http.post("/v1/jobs", json=a_document(artifacts=[named]))
        assert answer.status_code == 422
        assert NOT_ALLOWED in answer.json()["detail"]

    named = str(tmp_path / "allowed" / "code.py")
    await restricted.submit(a_document(artifacts=[named]))


async def test_whoever_analyses_a_graph_knows_the_roots(restricted: Cluster) -> None:
    restricted.inspector.answers = [Analysed(faults=[], plans=[])]

    answer = await restricted.http.post("/v1/jobs?dry_run=true&analyse=true", json=a_document())

    assert answer.json()["faults"] == []
    [asked] = restricted.inspector.asked
    assert isinstance(asked, AnalyseGraph)
    assert asked.allowed_paths is not None
    assert asked.allowed_paths.graphs[0] == str(restricted.storage / "allowed")


async def test_without_rules_any_path_is_taken(cluster: Cluster) -> None:
    job = await cluster.submit(outside())
    [run] = await (await cluster.runner(job)).directives()

    assert run["body"]["allowed_paths"] is None


@pytest.mark.parametrize(
    ("host", "is_restricted"),
    [
        ("127.0.0.1", False),
        ("::1", False),
        ("localhost", False),
        ("0.0.0.0", True),
        ("::", True),
        ("192.0.2.7", True),
        ("headgate.example.com", True),
    ],
)
def test_only_a_server_on_loopback_takes_any_path(
    tmp_path: Path, host: str, is_restricted: bool
) -> None:
    settings = Settings(host=host, data_dir=tmp_path, checkpoints="file:///srv/checkpoints")

    rules = settings.path_rules

    assert (rules is not None) == is_restricted
    told = Settings(host=host, data_dir=tmp_path, allow_paths=("/srv/in",)).path_rules
    assert told is not None
    assert [str(root.location) for root in told.graphs.roots] == ["/srv/in", f"{tmp_path}/data"]
    if rules is not None:
        assert [str(root.location) for root in rules.snapshots.roots] == [
            f"{tmp_path}/data",
            f"{tmp_path}/storage",
            "/srv/checkpoints",
        ]


def test_a_server_on_loopback_that_others_reach_takes_not_any_path(tmp_path: Path) -> None:
    behind = Settings(data_dir=tmp_path, trusted_proxies=("127.0.0.1",))
    advertised = Settings(data_dir=tmp_path, advertise="http://headgate.example.com")

    assert behind.path_rules is not None
    assert advertised.path_rules is not None


def test_roots_come_from_the_environment_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_ALLOW_PATHS", "/srv/in, s3://bucket/data")
    assert Settings(data_dir=tmp_path).allow_paths == ("/srv/in", "s3://bucket/data")

    monkeypatch.setenv("HEADGATE_ALLOW_PATHS", "relative")
    with pytest.raises(ValueError, match="'relative' is relative"):
        Settings(data_dir=tmp_path)


def test_settings_of_a_run_say_nothing_where_there_are_no_rules() -> None:
    assert RunSettings("local[2]", "file:///s", "/d").path_roots is None
