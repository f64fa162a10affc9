"""Saved state that does not fit a job graph: refused when the job is submitted, all at once."""

import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from jobmanager.core.graph import graph_document
from jobmanager.core.ids import AttemptNumber, CheckpointNumber, JobId, RegionId, VertexId
from jobmanager.core.snapshots import layout
from jobmanager.core.snapshots import manifest as manifests
from jobmanager.core.snapshots.fit import state_of_graph
from jobmanager.core.snapshots.manifest import (
    Ancestor,
    Manifest,
    RegionManifest,
    SavepointInfo,
    SnapshotFile,
    StatePointer,
)
from tests.support.builders import a_document, a_document_with
from tests.support.cluster import Cluster

pytestmark = pytest.mark.anyio
STATE = b"what Spark kept"


def a_savepoint(
    directory: Path, document: dict[str, Any], watermark: datetime | None = None
) -> Path:
    """A whole savepoint of a job with this graph, in which every region has run."""
    graph = graph_document.parse(document)
    job = JobId(uuid4())
    regions = {}
    for name, kept in state_of_graph(graph).regions.items():
        path = "state/0/0/1.changelog"
        location = layout.savepoint_file(name, path)
        (directory / location).parent.mkdir(parents=True)
        (directory / location).write_bytes(STATE)
        file = SnapshotFile(path, location, len(STATE), hashlib.sha256(STATE).hexdigest())
        pointers = tuple(StatePointer(v, 0, 1, location, len(STATE)) for v in kept.keyed)
        offsets = dict.fromkeys(kept.sources, 7)
        regions[name] = RegionManifest(3, watermark, offsets, (file,), pointers)
    lineage = (Ancestor(job, {VertexId(name): 3 for name in regions}),)
    manifest = Manifest(
        job=job,
        checkpoint=CheckpointNumber(1),
        attempt=AttemptNumber(1),
        created_at=datetime.now(UTC),
        spark_version="4.3.0",
        parallelism=graph.parallelism,
        max_parallelism=graph.max_parallelism,
        regions=regions,
        savepoint=SavepointInfo(uuid4(), document, lineage),
    )
    (directory / layout.MANIFEST).write_text(manifests.to_json(manifest))
    return directory


def with_second_region() -> dict[str, Any]:
    document = a_document()
    document["vertices"].append(
        {"id": "raw", "op": "sink", "inputs": ["big"], "connector": "blackhole"}
    )
    return document


def with_other_vertices() -> dict[str, Any]:
    """Other key groups, another source, other keyed state, and one region less."""
    document = a_document(max_parallelism=360)
    rows, big, revenue, out = document["vertices"]
    rows["id"], big["inputs"] = "asks", ["asks"]
    revenue["id"], out["inputs"] = "costs", ["costs"]
    return document


MISFITS = [
    (None, "max_parallelism", "max_parallelism is 720 in the state and 360 in the graph"),
    ("out", "inputs", "region out reads from bids in the state and from asks in the graph"),
    ("out", "inputs", "region out has keyed state of revenue and would have costs"),
    (None, "vertices", "region out: the state of vertex revenue would be left behind"),
    (None, "vertices", "region raw: the offsets would be left behind"),
]


def told(faults: list[dict[str, Any]], misfits: list[tuple[str | None, str, str]]) -> None:
    """Asserts that these are the faults, and no others."""
    assert [(one["vertex"], one["field"]) for one in faults] == [one[:2] for one in misfits]
    for fault, (_, _, words) in zip(faults, misfits, strict=True):
        assert fault["message"].startswith(words)


async def submit(cluster: Cluster, document: dict[str, Any], **params: Any) -> httpx.Response:
    return await cluster.http.post("/v1/jobs", params=params, json=document)


async def test_a_savepoint_that_does_not_fit_is_refused_with_every_fault(
    cluster: Cluster, tmp_path: Path
) -> None:
    savepoint = a_savepoint(tmp_path / "savepoint", with_second_region())
    before = await cluster.get("/jobs")

    answer = await submit(cluster, with_other_vertices(), savepoint=str(savepoint))

    problem = answer.json()
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["type"] == "/problems/StateDoesNotFit"
    told(problem["faults"], MISFITS)
    for _, _, words in MISFITS:
        assert words in problem["detail"]
    assert await cluster.get("/jobs") == before


async def test_a_dry_run_says_the_same_and_stores_nothing(cluster: Cluster, tmp_path: Path) -> None:
    savepoint = a_savepoint(tmp_path / "savepoint", with_second_region())
    before = await cluster.get("/jobs")

    answer = await submit(cluster, with_other_vertices(), savepoint=str(savepoint), dry_run=True)

    assert answer.status_code == 200
    assert answer.json()["plan"] is None
    told(answer.json()["faults"], MISFITS)
    assert await cluster.get("/jobs") == before


async def test_state_is_left_behind_only_when_that_is_said(
    cluster: Cluster, tmp_path: Path
) -> None:
    savepoint = str(a_savepoint(tmp_path / "savepoint", with_second_region()))
    document, allowed = a_document_with("out", path="less"), {"allow_non_restored_state": True}

    refused = await submit(cluster, document, savepoint=savepoint)
    tried = await submit(cluster, document, savepoint=savepoint, dry_run=True, **allowed)
    meant = await submit(cluster, document, savepoint=savepoint, **allowed)

    told(refused.json()["faults"], MISFITS[-1:])
    assert (tried.status_code, tried.json()["faults"]) == (200, [])
    assert meant.status_code == 202
    [run] = await (await cluster.runner(meant.json()["jobid"])).directives()
    assert run["body"]["restore_point"]["allow_non_restored_state"] is True


async def test_the_flag_does_not_help_against_state_that_spark_would_mistake(
    cluster: Cluster, tmp_path: Path
) -> None:
    savepoint = a_savepoint(tmp_path / "savepoint", with_second_region())

    answer = await submit(
        cluster, with_other_vertices(), savepoint=str(savepoint), allow_non_restored_state=True
    )

    told(answer.json()["faults"], MISFITS[:3])


async def test_a_savepoint_that_fits_is_accepted_at_another_parallelism(
    cluster: Cluster, tmp_path: Path
) -> None:
    savepoint = str(a_savepoint(tmp_path / "savepoint", a_document()))
    document = a_document_with("out", path="fits")

    tried = await submit(cluster, document, savepoint=savepoint, parallelism=8, dry_run=True)
    answer = await submit(cluster, document, savepoint=savepoint, parallelism=8)

    assert (tried.status_code, tried.json()["faults"]) == (200, [])
    assert answer.status_code == 202


async def test_a_batch_job_starts_from_no_savepoint(cluster: Cluster, tmp_path: Path) -> None:
    document = a_document(mode="batch")
    document["vertices"][0] = {
        "id": "bids",
        "op": "source",
        "connector": "table",
        "rows": [{"auction": 1, "price": 1, "ts": "2026-01-01T00:00:00Z"}],
        "schema": "auction INT, price INT, ts TIMESTAMP",
    }
    document["vertices"][2]["time"] = "ts"
    savepoint = a_savepoint(tmp_path / "savepoint", a_document())

    answer = await submit(cluster, document, savepoint=str(savepoint), dry_run=True)

    [fault] = answer.json()["faults"]
    assert (fault["vertex"], fault["field"]) == (None, "mode")


async def test_a_dry_run_tells_of_a_damaged_and_of_a_missing_savepoint(
    cluster: Cluster, tmp_path: Path
) -> None:
    savepoint = a_savepoint(tmp_path / "savepoint", a_document())
    (savepoint / layout.savepoint_file(RegionId("out"), "state/0/0/1.changelog")).unlink()

    damaged = await submit(cluster, a_document(), savepoint=str(savepoint), dry_run=True)
    missing = await submit(cluster, a_document(), savepoint="/nowhere/at/all", dry_run=True)

    for answer, words in ((damaged, "1.changelog is missing"), (missing, "cannot be read")):
        [fault] = answer.json()["faults"]
        assert (fault["vertex"], fault["field"]) == (None, "savepoint")
        assert words in fault["message"]


async def test_a_drained_savepoint_is_refused_unless_that_is_said(
    cluster: Cluster, tmp_path: Path
) -> None:
    """By what its manifest tells, marked or not: it may come from anywhere."""
    savepoint = a_savepoint(tmp_path / "savepoint", a_document(), manifests.END_OF_TIME)
    before = await cluster.get("/jobs")

    refused = await submit(cluster, a_document(), savepoint=str(savepoint))
    dry = await submit(cluster, a_document(), savepoint=str(savepoint), dry_run=True)

    assert refused.status_code == 422
    assert refused.json()["type"] == "/problems/DrainedRestorePoint"
    assert f"savepoint {savepoint} is drained (region out)" in refused.json()["detail"]
    assert "allow_drained=true (--allow-drained)" in refused.json()["detail"]
    assert [one["field"] for one in dry.json()["faults"]] == ["savepoint"]
    assert await cluster.get("/jobs") == before
    taken = await submit(cluster, a_document(), savepoint=str(savepoint), allow_drained=True)
    assert taken.status_code == 202


async def test_a_start_from_a_savepoint_that_is_repeated_with_its_key_is_the_same_job(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The job itself writes to the sink by then, and has perhaps deleted the savepoint."""
    savepoint = a_savepoint(tmp_path / "repeated", a_document())
    document = a_document_with("out", path="repeated")
    key = {"Idempotency-Key": "deploy-7"}

    async def start() -> httpx.Response:
        params = {"savepoint": str(savepoint)}
        return await cluster.http.post("/v1/jobs", params=params, json=document, headers=key)

    first = await start()
    (savepoint / layout.MANIFEST).unlink()
    again = await start()

    assert (first.status_code, again.status_code) == (202, 202), again.text
    assert first.json() == again.json()
