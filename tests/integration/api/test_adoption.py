"""Adopting through the API: what is stored when the inspector has made a savepoint."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from jobmanager.core.ids import AttemptNumber, CheckpointNumber, JobId, RegionId, VertexId
from jobmanager.core.snapshots import layout
from jobmanager.core.snapshots import manifest as manifests
from jobmanager.core.snapshots.manifest import (
    Ancestor,
    Manifest,
    RegionManifest,
    SavepointInfo,
    StatePointer,
)
from jobmanager.core.snapshots.storage_uri import local_path
from jobmanager.protocol.inspection import AdoptCheckpoint, Adopted, QuestionBody, Refusal
from tests.support.builders import a_document
from tests.support.cluster import Cluster

pytestmark = pytest.mark.anyio
ADOPTED = Adopted(batch=41, provider="x.HDFSBacked", partitions=200, was_rewritten=True)


def write_savepoint(question: QuestionBody) -> None:
    """What an inspector leaves behind, as far as the JobManager looks."""
    assert isinstance(question, AdoptCheckpoint)
    pointer = StatePointer(VertexId("revenue"), 0, 41, "out/state/0/0/41.zip", 1)
    region = RegionManifest(41, None, {VertexId("bids"): 7}, (), (pointer,))
    job = JobId(uuid4())
    lineage = (Ancestor(job, {VertexId("out"): 41}),)
    manifest = Manifest(
        job=job,
        checkpoint=CheckpointNumber(1),
        attempt=AttemptNumber(1),
        created_at=datetime.now(UTC),
        spark_version="4.3.0",
        parallelism=question.parallelism,
        max_parallelism=720,
        regions={RegionId("out"): region},
        savepoint=SavepointInfo(question.savepoint, question.graph, lineage),
    )
    directory = local_path(question.target)
    directory.mkdir(parents=True)
    (directory / layout.MANIFEST).write_text(manifests.to_json(manifest))


async def adopt(cluster: Cluster, **more: Any) -> dict[str, Any]:
    cluster.inspector.answers = [ADOPTED]
    cluster.inspector.before_answer = write_savepoint
    body = {"path": "/data/checkpoint", "graph": a_document(), **more}
    answer = await cluster.http.post("/v1/savepoints/adopt", json=body)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def look(path: str) -> Callable[[], bool]:
    return Path(local_path(path) / layout.MANIFEST).exists


async def test_an_adopted_savepoint_is_one_of_no_job(cluster: Cluster) -> None:
    made = await adopt(cluster)

    [question] = cluster.inspector.asked
    assert isinstance(question, AdoptCheckpoint)
    assert (question.path, question.parallelism) == ("/data/checkpoint", 2)
    assert question.target.startswith(f"{cluster.storage.as_uri()}/savepoints/savepoint-adopted-")
    assert (made["status"], made["job"], made["path"]) == ("completed", None, question.target)
    assert made["parent"] == "Spark checkpoint /data/checkpoint, batch 41"
    assert made["regions"] == {"out": {"batch": 41, "offsets": {"bids": 7}, "watermark": None}}
    assert await cluster.get(f"/v1/savepoints/{made['id']}") == made
    assert made["id"] in [one["id"] for one in (await cluster.get("/v1/savepoints"))["items"]]


async def test_a_job_starts_from_it_and_then_it_can_go(cluster: Cluster) -> None:
    made = await adopt(cluster, parallelism=4)
    job = await cluster.submit(a_document(), savepoint=made["id"], parallelism=4)
    runner = await cluster.runner(job)
    [run] = await runner.directives()
    assert run["body"]["restore_point"]["root"] == made["path"]

    in_use = await cluster.http.delete(f"/v1/savepoints/{made['id']}")
    assert in_use.status_code == 409
    await cluster.http.patch(f"/v1/jobs/{job}?mode=cancel")
    await runner.run()
    await runner.say("cancelled", detail="as asked")

    disposed = await cluster.http.delete(f"/v1/savepoints/{made['id']}")
    assert (disposed.status_code, disposed.json()["status"]) == (202, "disposed")
    assert not look(made["path"])()
    again = await cluster.http.delete(f"/v1/savepoints/{made['id']}")
    assert again.json()["status"] == "disposed"


@pytest.mark.parametrize(
    ("refusal", "expected"),
    [
        (Refusal(reason="not_adoptable", message="it has no metadata"), (422, "NotAdoptable")),
        (Refusal(reason="not_in_time", message="too late"), (503, "InspectorUnavailable")),
        (None, (503, "InspectorUnavailable")),
    ],
)
async def test_what_is_not_adopted_leaves_nothing_behind(
    cluster: Cluster, refusal: Refusal | None, expected: tuple[int, str]
) -> None:
    before = await cluster.get("/v1/savepoints")
    cluster.inspector.answers = [refusal] if refusal else []
    body = {"path": "/data/checkpoint", "graph": a_document()}
    answer = await cluster.http.post("/v1/savepoints/adopt", json=body)
    kind = answer.json()["type"].rpartition("/")[2]
    assert (answer.status_code, kind) == expected
    if refusal:
        assert refusal.message in answer.json()["detail"]
    assert await cluster.get("/v1/savepoints") == before


async def test_a_graph_with_faults_is_refused_before_anything_is_read(cluster: Cluster) -> None:
    body = {"path": "/data/checkpoint", "graph": {"name": "x", "vertices": []}}
    answer = await cluster.http.post("/v1/savepoints/adopt", json=body)
    assert answer.status_code == 422
    assert answer.json()["faults"]
    assert cluster.inspector.asked == []
