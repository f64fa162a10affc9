"""Garbage collection through the API: what a row needs stays, whatever else is there."""

import hashlib
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlparse
from uuid import UUID, uuid4

import pytest

from jobmanager.core.graph.graph_document import parse
from jobmanager.core.ids import AttemptNumber, CheckpointNumber, JobId, RegionId, VertexId
from jobmanager.core.snapshots import layout
from jobmanager.core.snapshots import manifest as manifests
from jobmanager.core.snapshots.manifest import (
    Manifest,
    RegionManifest,
    SnapshotFile,
    StatePointer,
)
from tests.support.builders import NOW, a_document, a_document_with
from tests.support.cluster import EVERYONE, Cluster, PlayedRunner

pytestmark = pytest.mark.anyio
ONE_KEPT = a_document(checkpointing={"retained": 1})


def home(cluster: Cluster, job: str) -> Path:
    return cluster.storage / "jobs" / job


def leave(path: Path, text: str = "state") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def write_checkpoint(cluster: Cluster, job: str, number: int, *names: str) -> None:
    """A checkpoint as a runner leaves it: pool files, and a manifest that names them."""
    files = []
    for name in names:
        path = leave(home(cluster, job) / "pool" / name)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        files.append(SnapshotFile(name, f"pool/{name}", path.stat().st_size, digest))
    graph = parse(ONE_KEPT)
    pointers = (StatePointer(VertexId("revenue"), 0, 1, f"pool/{names[0]}", 1),)
    manifest = Manifest(
        JobId(UUID(job)),
        CheckpointNumber(number),
        AttemptNumber(1),
        NOW,
        "4.3.0",
        graph.parallelism,
        graph.max_parallelism,
        {RegionId("out"): RegionManifest(1, None, {VertexId("bids"): 7}, tuple(files), pointers)},
    )
    leave(home(cluster, job) / layout.checkpoint_manifest(number), manifests.to_json(manifest))


async def trigger(cluster: Cluster, job: str) -> int:
    answer = await cluster.http.post(f"/v1/jobs/{job}/checkpoints")
    return int(answer.json()["number"])


async def complete(cluster: Cluster, job: str, runner: PlayedRunner, *names: str) -> int:
    number = await trigger(cluster, job)
    write_checkpoint(cluster, job, number, *names)
    assert await runner.ack(number, *EVERYONE) == "completed"
    await cluster.dispatch.run_once()
    return number


async def gc(cluster: Cluster, **params: Any) -> dict[str, Any]:
    answer = await cluster.http.post("/v1/gc", params=params)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def below(found: list[dict[str, Any]], directory: Path) -> dict[str, str]:
    """Path to reason of what is below a directory."""
    root = f"{directory.as_uri()}/"
    return {
        one["path"].removeprefix(root): one["why"] for one in found if one["path"].startswith(root)
    }


def files_below(directory: Path) -> set[str]:
    return {p.relative_to(directory).as_posix() for p in directory.rglob("*") if p.is_file()}


async def test_a_dry_run_explains_and_the_real_one_does_just_that(cluster: Cluster) -> None:
    job, runner = await cluster.running(ONE_KEPT)
    await complete(cluster, job, runner, "a", "b")
    await complete(cluster, job, runner, "b", "c")
    aborted = await trigger(cluster, job)
    leave(home(cluster, job) / f"checkpoints/{aborted}/out/offsets/1")
    await runner.decline(aborted)
    leave(home(cluster, job) / "pool/of-a-try-that-failed")
    leave(home(cluster, job) / "checkpoints/77/manifest.json", "nobody asked for it")
    before = files_below(home(cluster, job))

    explained = await gc(cluster, dry_run=True)
    assert files_below(home(cluster, job)) - {"pool.lock"} == before - {"pool.lock"}
    done = await gc(cluster)

    whys = below(explained["items"], home(cluster, job))
    assert whys == {
        f"checkpoints/{aborted}": "the checkpoint was aborted: declined_storage",
        "checkpoints/77": "the database has no such checkpoint",
        "pool/of-a-try-that-failed": "no retained checkpoint refers to this file",
    }
    assert (explained["dry_run"], done["dry_run"]) == (True, False)
    assert done["items"] == explained["items"]
    assert explained["bytes"] == sum(one["bytes"] for one in explained["items"]) > 0
    assert files_below(home(cluster, job)) == {
        "pool.lock",
        "pool/b",
        "pool/c",
        "checkpoints/2/manifest.json",
    }
    assert below((await gc(cluster))["items"], home(cluster, job)) == {}


async def test_a_checkpoint_under_way_is_left_alone_with_all_it_names(cluster: Cluster) -> None:
    job, runner = await cluster.running(ONE_KEPT)
    number = await trigger(cluster, job)
    write_checkpoint(cluster, job, number, "a")

    await gc(cluster)

    assert {"pool/a", "checkpoints/1/manifest.json"} <= files_below(home(cluster, job))
    assert await runner.ack(number, *EVERYONE) == "completed"
    verified = await cluster.http.post(f"/v1/jobs/{job}/checkpoints/{number}/verify")
    assert verified.json()["faults"] == []


async def test_a_checkpoint_that_another_job_starts_from_stays(cluster: Cluster) -> None:
    job, runner = await cluster.running(ONE_KEPT)
    first = await complete(cluster, job, runner, "a")
    await cluster.submit(a_document_with("out", path="x"), checkpoint=f"{job}:{first}")
    await complete(cluster, job, runner, "b")

    found = await gc(cluster)

    assert below(found["items"], home(cluster, job)) == {}
    assert {"pool/a", "pool/b"} <= files_below(home(cluster, job))


async def test_what_a_cancelled_job_worked_in_goes_only_when_it_is_old_enough(
    cluster: Cluster,
) -> None:
    job, runner = await cluster.running(ONE_KEPT)
    await complete(cluster, job, runner, "a")
    leave(home(cluster, job) / "attempts/1/out/commits/9")
    week_ms = timedelta(days=7) // timedelta(milliseconds=1)
    live = await gc(cluster, older_than_ms=0)
    await cluster.http.patch(f"/v1/jobs/{job}", params={"mode": "cancel"})
    await runner.say("cancelled", detail="ended after its batch")
    still_there = await gc(cluster, older_than_ms=0)
    await cluster.exit(runner)

    assert below(live["items"], home(cluster, job)) == {}
    assert below(still_there["items"], home(cluster, job)) == {}, "its runner had not exited"
    left = below((await gc(cluster, older_than_ms=week_ms))["left"], home(cluster, job))
    assert "it may hold the newest state: --older-than deletes it" in left["attempts/1"]
    cluster.clock.pass_time(timedelta(days=8).total_seconds())
    gone = below((await gc(cluster, older_than_ms=week_ms))["items"], home(cluster, job))
    assert list(gone) == ["attempts/1"]
    assert gone["attempts/1"].endswith("more than 7d ago")
    assert files_below(home(cluster, job)) == {
        "pool.lock",
        "pool/a",
        "checkpoints/1/manifest.json",
    }, "its checkpoint can still be restored"


async def test_the_directory_of_an_unknown_job_is_reported_and_deleted_only_when_asked(
    cluster: Cluster,
) -> None:
    unknown = cluster.storage / "jobs" / uuid4().hex
    leave(unknown / "attempts/1/out/commits/9")
    notes = leave(cluster.storage / "jobs" / "notes" / "readme.txt")

    reported = await gc(cluster)
    assert below(reported["items"], unknown.parent) == {}
    why = below(reported["left"], unknown.parent)[unknown.name]
    assert why.startswith("the database has no such job: --unknown-jobs deletes it")
    assert unknown.exists()
    asked = await gc(cluster, unknown_jobs=True)

    assert below(asked["items"], unknown.parent) == {unknown.name: "the database has no such job"}
    assert not unknown.exists()
    assert notes.exists()


async def test_the_draft_of_a_savepoint_goes_when_its_writer_is_gone(cluster: Cluster) -> None:
    job, runner = await cluster.running(ONE_KEPT)
    await cluster.http.post(f"/v1/jobs/{job}/savepoints", json={})
    target = (await runner.directives())[-1]["body"]["savepoint"]["directory"]
    savepoint = Path(urlparse(target).path)
    draft = savepoint.with_name(f".{savepoint.name}.draft")
    leave(draft / "out/commits/1")
    leave(savepoint.with_name(".savepoint-of-nobody.draft") / "out/commits/1")
    under_way = await gc(cluster)
    await runner.decline(1)
    declined = await gc(cluster)
    await cluster.exit(runner)

    gone = await gc(cluster)

    home_of_savepoints = savepoint.parent
    assert draft.name not in below(under_way["items"] + under_way["left"], home_of_savepoints)
    assert below(declined["items"], home_of_savepoints) == {}
    assert "still alive" in below(declined["left"], home_of_savepoints)[draft.name]
    assert below(gone["items"], home_of_savepoints)[draft.name].endswith("is failed")
    assert (
        "no such savepoint" in below(gone["left"], home_of_savepoints)[".savepoint-of-nobody.draft"]
    )
    assert not draft.exists()


async def test_a_completed_savepoint_is_never_touched(cluster: Cluster) -> None:
    job, runner = await cluster.running(ONE_KEPT)
    await cluster.http.post(f"/v1/jobs/{job}/savepoints", json={})
    target = (await runner.directives())[-1]["body"]["savepoint"]["directory"]
    savepoint = Path(urlparse(target).path)
    leave(savepoint / "manifest.json", "{}")
    await runner.post("acks", {**runner.acks(1, *EVERYONE), "manifest": "manifest.json"})
    await cluster.exit(runner)

    found = await gc(cluster, older_than_ms=0, unknown_jobs=True)

    assert below(found["items"], savepoint.parent) == {}
    assert found["kept"]["savepoints"] >= 1
    assert savepoint.exists()  # noqa: ASYNC240


async def test_a_manifest_that_cannot_be_understood_protects_the_pool(cluster: Cluster) -> None:
    job, runner = await cluster.running(ONE_KEPT)
    await complete(cluster, job, runner, "a")
    leave(home(cluster, job) / "checkpoints/1/manifest.json", "{}")
    leave(home(cluster, job) / "pool/b")

    found = await gc(cluster)

    assert below(found["items"], home(cluster, job)) == {}
    assert "a manifest cannot be read" in below(found["left"], home(cluster, job))["pool"]
    assert {"pool/a", "pool/b"} <= files_below(home(cluster, job))
