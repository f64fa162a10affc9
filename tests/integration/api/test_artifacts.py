"""Uploading code, naming it in a graph, and what is found wrong at submission."""

import io
import os
import time
import tracemalloc
import zipfile
from collections.abc import AsyncIterator
from dataclasses import replace
from hashlib import sha256
from typing import Any

import httpx
import pytest

from jobmanager.api.context import ApiContext
from jobmanager.core.artifact import UploadLimits
from tests.support.builders import a_document
from tests.support.cluster import Cluster

pytestmark = pytest.mark.anyio
UPLOAD = {"Content-Type": "application/octet-stream"}
_CODE = b"def work(spark, rows):\n    return rows\n"


async def _upload(
    cluster: Cluster, content: bytes = _CODE, name: str = "mine.py"
) -> httpx.Response:
    return await cluster.http.post(
        "/v1/artifacts", params={"name": name}, content=content, headers=UPLOAD
    )


def _with_function(reference: str, **more: Any) -> dict[str, Any]:
    document = a_document(**more)
    vertex = {
        "id": "work",
        "op": "spark",
        "inputs": ["big"],
        "function": reference,
        "output": "auction BIGINT, price BIGINT, ts TIMESTAMP",
    }
    document["vertices"].insert(2, vertex)
    document["vertices"][3]["inputs"] = ["work"]
    return document


async def test_an_artifact_is_known_by_its_content(cluster: Cluster) -> None:
    content = b"def known(spark, rows):\n    return rows\n"
    first = await _upload(cluster, content, "known.py")
    again = await _upload(cluster, content, "known.py")

    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    artifact_id = first.json()["id"]
    assert artifact_id == sha256(content).hexdigest()
    assert first.json()["modules"] == ["known"]
    stored = cluster.storage / "artifacts" / artifact_id / "known.py"
    assert stored.read_bytes() == content
    shown = await cluster.get(f"/v1/artifacts/{artifact_id}")
    assert (shown["names"], shown["jobs"]) == ({"known": ["known"]}, [])


async def test_the_same_content_under_another_name_is_a_conflict(cluster: Cluster) -> None:
    await _upload(cluster, b"A = 1\n", "first.py")

    answer = await _upload(cluster, b"A = 1\n", "second.py")

    assert answer.status_code == 409
    assert "under the name first.py" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("name", "content"), [("a.exe", b"x"), ("a.py", b"def ("), ("a.zip", b"x")]
)
async def test_what_no_job_could_use_is_not_stored(
    cluster: Cluster, name: str, content: bytes
) -> None:
    answer = await _upload(cluster, content, name)

    assert answer.status_code == 422
    assert answer.json()["type"] == "/problems/InvalidArtifact"
    assert not list((cluster.storage / "artifacts").glob("*"))


async def test_artifacts_are_listed_in_pages(cluster: Cluster) -> None:
    for number in range(3):
        cluster.clock.pass_time(1)
        await _upload(cluster, f"PAGE = {number}\n".encode(), f"page{number}.py")

    first = await cluster.get("/v1/artifacts?limit=2")
    rest = await cluster.http.get("/v1/artifacts", params={"limit": 2, "cursor": first["next"]})

    assert [one["name"] for one in first["items"]] == ["page2.py", "page1.py"]
    assert rest.json()["items"][0]["name"] == "page0.py"


async def test_a_graph_names_artifacts_by_id_name_or_path_and_keeps_their_ids(
    cluster: Cluster,
) -> None:
    by_id = (await _upload(cluster, b"ID = 1\n", "by_id.py")).json()["id"]
    await _upload(cluster, b"NAME = 'old'\n", "by_name.py")
    cluster.clock.pass_time(1)
    newer = (await _upload(cluster, b"NAME = 'new'\n", "by_name.py")).json()["id"]
    data = cluster.storage / "data"
    data.mkdir(exist_ok=True)
    (data / "by_path.py").write_bytes(b"PATH = 1\n")

    job = await cluster.submit(a_document(artifacts=[by_id, "by_name.py", "by_path.py"]))

    graph = (await cluster.get(f"/v1/jobs/{job}/graph"))["graph"]
    assert graph["artifacts"] == [by_id, newer, sha256(b"PATH = 1\n").hexdigest()]


async def test_a_missing_module_or_function_is_found_at_submission(cluster: Cluster) -> None:
    await _upload(cluster)
    for reference, field, told in (
        ("mine:werk", "function", "did you mean 'work'?"),
        ("nine:work", "function", "did you mean 'mine'?"),
        ("json:dumbs", "function", "did you mean 'dumps'"),
    ):
        document = _with_function(reference, artifacts=["mine.py"])
        answer = await cluster.http.post("/v1/jobs", json=document)
        dry = await cluster.http.post("/v1/jobs", json=document, params={"dry_run": "true"})

        assert answer.status_code == 422, reference
        assert answer.json()["faults"] == dry.json()["faults"]
        (fault,) = answer.json()["faults"]
        assert (fault["vertex"], fault["field"]) == ("work", field)
        assert told in fault["message"]
    await cluster.submit(_with_function("mine:work", artifacts=["mine.py"]))
    await cluster.submit(_with_function("json:dumps"))


async def test_faults_of_the_graph_and_of_its_artifacts_are_told_at_once(cluster: Cluster) -> None:
    document = a_document(artifacts=["nowhere.py", "0" * 64], parallelism=7)

    answer = await cluster.http.post("/v1/jobs", json=document)

    fields = [fault["field"] for fault in answer.json()["faults"]]
    assert fields == ["parallelism", "artifacts", "artifacts"]


async def test_an_artifact_that_a_job_uses_is_not_deleted(cluster: Cluster) -> None:
    artifact_id = (await _upload(cluster, b"USED = 1\n", "used.py")).json()["id"]
    job, runner = await cluster.running(a_document(artifacts=[artifact_id]))

    refused = await cluster.http.delete(f"/v1/artifacts/{artifact_id}")

    assert refused.status_code == 409
    assert job in refused.json()["detail"]
    await cluster.http.patch(f"/v1/jobs/{job}", params={"mode": "cancel"})
    await runner.say("cancelled", detail="as asked")
    deleted = await cluster.http.delete(f"/v1/artifacts/{artifact_id}")
    assert deleted.status_code == 200, deleted.text
    assert not (cluster.storage / "artifacts" / artifact_id).exists()
    assert (await cluster.http.get(f"/v1/artifacts/{artifact_id}")).status_code == 404


async def test_the_graph_of_an_upgrade_is_checked_too(cluster: Cluster) -> None:
    job, _ = await cluster.running(a_document())

    answer = await cluster.http.post(
        f"/v1/jobs/{job}/upgrade", json=_with_function("no_such_module:f")
    )

    assert answer.status_code == 422
    assert answer.json()["faults"][0]["field"] == "function"


async def test_garbage_collection_leaves_unused_artifacts_and_tells_of_unknown_files(
    cluster: Cluster,
) -> None:
    unused = (await _upload(cluster, b"UNUSED = 1\n", "unused.py")).json()["id"]
    lost = cluster.storage / "artifacts" / ("f" * 64)
    lost.mkdir()
    (lost / "lost.py").write_text("LOST = 1\n")
    cluster.clock.now = cluster.clock.now.fromtimestamp(
        time.time() + 7200, cluster.clock.now.tzinfo
    )

    told = (await cluster.http.post("/v1/gc")).json()
    done = (await cluster.http.post("/v1/gc", params={"unknown_jobs": "true"})).json()

    assert [one["kind"] for one in told["left"]] == ["unknown_artifact"]
    assert lost.as_uri() in {one["path"] for one in done["items"]}
    assert not lost.exists()
    assert (cluster.storage / "artifacts" / unused).exists()


async def test_an_upload_may_be_larger_than_other_requests_and_not_endless(
    cluster: Cluster,
) -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("big.py", "BIG = 1\n")
        archive.writestr("noise.bin", os.urandom(17 * 1024 * 1024))
    endless = {**UPLOAD, "content-length": str(65 * 1024 * 1024)}

    big = await _upload(cluster, made.getvalue(), "big.zip")
    too_big = await cluster.http.post("/v1/artifacts?name=x.py", content=b"x", headers=endless)

    assert big.status_code == 201
    assert too_big.status_code == 413


def _limit(cluster: Cluster, **limits: int) -> None:
    context: ApiContext = cluster.app.state.context
    settings = replace(context.run_settings, uploads=UploadLimits(**limits))
    cluster.app.state.context = replace(context, run_settings=settings)


async def test_an_artifact_beyond_the_limit_is_413_however_it_comes(cluster: Cluster) -> None:
    _limit(cluster, file_bytes=100)
    data = cluster.storage / "data"
    data.mkdir()
    (data / "large.py").write_bytes(b"#" * 101)

    uploaded = await _upload(cluster, b"#" * 101, "large.py")
    named = await cluster.http.post("/v1/jobs", json=a_document(artifacts=["large.py"]))

    assert uploaded.status_code == 413
    assert uploaded.json()["type"] == "/problems/ArtifactTooLarge"
    assert "HEADGATE_MOST_ARTIFACT_BYTES" in uploaded.json()["detail"]
    assert named.status_code == 422
    assert "large.py is larger than 100 bytes" in named.json()["detail"]
    assert not list((cluster.storage / "artifacts").glob("*"))


async def test_a_server_that_is_full_of_artifacts_takes_no_more_but_the_same_again(
    cluster: Cluster,
) -> None:
    kept = await _upload(cluster, b"KEPT = 1\n", "kept.py")
    async with cluster.database.unit_of_work() as uow:
        count, total = await uow.artifacts.totals()
    for limits in ({"total_count": count}, {"total_bytes": total + 5}):
        _limit(cluster, **limits)

        again = await _upload(cluster, b"KEPT = 1\n", "kept.py")
        other = await _upload(cluster, b"OTHER = 1\n", "other.py")

        assert (again.status_code, again.json()["id"]) == (200, kept.json()["id"])
        assert other.status_code == 422
        assert other.json()["type"] == "/problems/ArtifactStoreFull"
    drafts = [one.name for one in (cluster.storage / "artifacts").glob(".*")]
    assert drafts == []


async def test_the_artifacts_of_a_graph_are_bounded_together(cluster: Cluster) -> None:
    ids = [
        (await _upload(cluster, f"BOUND{n} = 1\n".encode(), f"bound{n}.py")).json()["id"]
        for n in range(2)
    ]
    _limit(cluster, graph_bytes=15)

    answer = await cluster.http.post("/v1/jobs", json=a_document(artifacts=ids))

    assert answer.status_code == 422
    [fault] = answer.json()["faults"]
    assert fault["field"] == "artifacts"
    assert "together they are 22 bytes, and 15 at most" in fault["message"]


async def test_an_upload_is_never_in_memory_as_a_whole(cluster: Cluster) -> None:
    size, piece = 32, b"\0" * 1024 * 1024
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("streamed.py", "x = 1\n")
    small = made.getvalue()

    async def body() -> AsyncIterator[bytes]:
        for _ in range(size):  # a zip may have anything before it
            yield piece
        yield small

    tracemalloc.start()
    try:
        answer = await cluster.http.post(
            "/v1/artifacts", params={"name": "streamed.zip"}, content=body(), headers=UPLOAD
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert answer.status_code == 201, answer.text
    assert answer.json()["bytes"] == size * len(piece) + len(small)
    assert peak < size * len(piece) / 2
