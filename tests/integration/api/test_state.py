"""State through the API: what the JobManager decides before and after the inspector reads."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import UUID, uuid4

import pytest

from jobmanager.core.ids import AttemptNumber, CheckpointNumber, JobId, RegionId, VertexId
from jobmanager.core.snapshots import layout
from jobmanager.core.snapshots import manifest as manifests
from jobmanager.core.snapshots.manifest import Manifest, RegionManifest, StatePointer
from jobmanager.protocol.inspection import (
    CountKeyGroups,
    KeyGroupCount,
    KeyGroupCounts,
    ListStates,
    ReadRows,
    Refusal,
    RefusalReason,
    Rows,
    StateColumn,
    StateDescription,
    StateRow,
    States,
)
from tests.support.builders import a_document
from tests.support.cluster import EVERYONE, Cluster, PlayedRunner

pytestmark = pytest.mark.anyio
STATELESS = [one for one in a_document()["vertices"] if one["id"] != "revenue"]
STATELESS[-1] = {**STATELESS[-1], "inputs": ["big"]}


def a_row(auction: int = 5, subtask: int = 1) -> StateRow:
    return StateRow(
        key={"auction": auction}, value={"sum": auction * 10}, key_group=41, subtask=subtask
    )


def rows(*found: StateRow, more: tuple[int, int] | None = None) -> Rows:
    subtask, skip = more or (None, 0)
    return Rows(rows=list(found), next_subtask=subtask, next_skip=skip)


def refusal(reason: RefusalReason, message: str = "because") -> Refusal:
    return Refusal(reason=reason, message=message)


def a_region(batch: int | None, *vertices: str) -> RegionManifest:
    pointers = tuple(
        StatePointer(VertexId(vertex), subtask, 1, "pool/x", 1)
        for vertex in vertices
        for subtask in (0, 1)
    )
    return RegionManifest(batch, None, {}, (), pointers)


async def complete(
    cluster: Cluster, job: str, runner: PlayedRunner, **regions: RegionManifest
) -> int:
    """A checkpoint that is complete, with a manifest that says which vertices have state."""
    answer = await cluster.http.post(f"/v1/jobs/{job}/checkpoints")
    number = int(answer.json()["number"])
    manifest = Manifest(
        job=JobId(UUID(job)),
        checkpoint=CheckpointNumber(number),
        attempt=AttemptNumber(1),
        created_at=datetime.now(UTC),
        spark_version="4.3.0",
        parallelism=2,
        max_parallelism=720,
        regions={RegionId(name): one for name, one in regions.items()}
        or {RegionId("out"): a_region(3, "revenue")},
    )
    write(cluster.storage / "jobs" / job / layout.checkpoint_manifest(number), manifest)
    assert await runner.ack(number, *EVERYONE) == "completed"
    return number


def write(path: Path, manifest: Manifest) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(manifests.to_json(manifest))


async def refused(cluster: Cluster, path: str) -> tuple[int, str, str]:
    answer = await cluster.http.get(path)
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    problem = answer.json()
    return answer.status_code, problem["type"].rpartition("/")[2], problem["detail"]


async def test_the_states_of_the_last_completed_checkpoint(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    await complete(cluster, job, runner)
    last = await complete(cluster, job, runner)
    await cluster.http.post(f"/v1/jobs/{job}/checkpoints")  # under way
    column = StateColumn(name="odd name", type="BIGINT", spark_name="auction")
    described = StateDescription(
        region="out",
        vertex="revenue",
        name="default",
        operator="stateStoreSave",
        subtasks=2,
        key=[column],
        value=[column],
    )
    cluster.inspector.answers = [States(states=[described])]

    found = await cluster.get(f"/v1/jobs/{job}/state")

    assert (found["checkpoint"], found["savepoint"], found["next"]) == (last, None, None)
    assert found["completed_at"] == "2026-11-16T12:00:00Z"
    [state] = found["items"]
    assert state["key_schema"] == "`odd name` BIGINT"
    assert state["key"] == [{"name": "odd name", "type": "BIGINT", "spark_name": "auction"}]
    [question] = cluster.inspector.asked
    assert isinstance(question, ListStates)
    assert question.place.manifest == f"checkpoints/{last}/manifest.json"
    assert question.place.root == (cluster.storage / "jobs" / job).as_uri()
    assert question.place.graph == a_document()


async def test_a_key_may_have_a_line_end_in_it(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    await complete(cluster, job, runner)
    cluster.inspector.answers = [rows(a_row())]

    await cluster.get(f"/v1/jobs/{job}/state/revenue/default/{quote('two' + chr(10) + 'lines')}")

    [question] = cluster.inspector.asked
    assert isinstance(question, ReadRows)
    assert question.key == "two\nlines"


async def test_a_key_with_one_row_is_at_the_top_and_one_with_several_is_a_list(
    cluster: Cluster,
) -> None:
    job, runner = await cluster.running(a_document())
    number = await complete(cluster, job, runner)
    cluster.inspector.answers = [rows(a_row()), rows(a_row(), a_row(subtask=0))]

    one = await cluster.get(f"/v1/jobs/{job}/state/revenue/default/5")
    several = await cluster.get(f"/v1/jobs/{job}/state/revenue/default/5")

    item = {"checkpoint": number, "key": {"auction": 5}, "value": {"sum": 50}, "key_group": 41}
    assert one["items"] == [{**item, "subtask": 1}]
    assert {name: one[name] for name in item} == item
    assert (one["subtask"], one["next"]) == (1, None)
    assert (several["key"], several["value"], len(several["items"])) == (None, None, 2)


@pytest.mark.parametrize("key", ["a/b", "ä ö", '{"a": "x/y"}', "100%", "key-groups/"])
async def test_a_key_reaches_the_inspector_as_it_was_meant(cluster: Cluster, key: str) -> None:
    job, runner = await cluster.running(a_document())
    await complete(cluster, job, runner)
    cluster.inspector.answers = [rows(a_row())]
    await cluster.get(f"/v1/jobs/{job}/state/revenue/default/{quote(key, safe='')}")
    [question] = cluster.inspector.asked
    assert isinstance(question, ReadRows)
    assert question.key == key


async def test_a_scan_goes_on_in_the_checkpoint_in_which_it_began(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document(checkpointing={"retained": 2}))
    first = await complete(cluster, job, runner)
    cluster.inspector.answers = [rows(a_row(), more=(1, 7)), rows(a_row())]
    path = f"/v1/jobs/{job}/state/revenue/default"

    page = await cluster.get(f"{path}?limit=1")
    await complete(cluster, job, runner)
    following = await cluster.get(f"{path}?limit=1&cursor={page['next']}")

    assert (page["checkpoint"], following["checkpoint"], following["next"]) == (first, first, None)
    question = cluster.inspector.asked[-1]
    assert isinstance(question, ReadRows)
    assert (question.subtask, question.skip, question.limit) == (1, 7, 1)
    await complete(cluster, job, runner)  # retention lets the first one go
    status, kind, told = await refused(cluster, f"{path}?cursor={page['next']}")
    assert (status, kind) == (409, "NoStateYet")
    assert "start the scan again" in told


async def test_a_checkpoint_that_goes_before_it_is_copied_is_replaced_by_the_newest(
    cluster: Cluster,
) -> None:
    job, runner = await cluster.running(a_document())
    await complete(cluster, job, runner)
    cluster.inspector.answers = [refusal("gone"), rows(a_row())]

    found = await cluster.get(f"/v1/jobs/{job}/state/revenue/default")

    assert len(found["items"]) == 1
    assert len(cluster.inspector.asked) == 2


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (refusal("unknown_state", "there is: x"), (404, "StateNotFound", "there is: x")),
        (refusal("bad_key", "'x' is no BIGINT"), (422, "InvalidStateKey", "'x' is no BIGINT")),
        (refusal("unreadable"), (422, "UnreadableState", "because")),
        (refusal("not_in_time"), (503, "InspectorUnavailable", "because")),
        (refusal("internal"), (503, "InspectorUnavailable", "because")),
        (None, (503, "InspectorUnavailable", "nobody plays the inspector")),
    ],
)
async def test_what_the_inspector_refuses_is_a_problem(
    cluster: Cluster, answer: Refusal | None, expected: tuple[int, str, str]
) -> None:
    job, runner = await cluster.running(a_document())
    await complete(cluster, job, runner)
    cluster.inspector.answers = [answer] if answer else []
    assert await refused(cluster, f"/v1/jobs/{job}/state/revenue/default/x") == expected


async def test_a_key_that_is_not_there(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    await complete(cluster, job, runner)
    cluster.inspector.answers = [rows()]
    status, kind, told = await refused(cluster, f"/v1/jobs/{job}/state/revenue/default/99")
    assert (status, kind) == (404, "StateNotFound")
    assert told == f"revenue/default has no rows of key '99' in checkpoint 1 of job {job}"


async def test_key_groups_with_their_skew(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    await complete(cluster, job, runner)
    groups = [
        KeyGroupCount(key_group=1, subtask=1, rows=3, bytes=100),
        KeyGroupCount(key_group=8, subtask=0, rows=1, bytes=100),
    ]
    cluster.inspector.answers = [KeyGroupCounts(max_parallelism=720, groups=groups)]

    found = await cluster.get(f"/v1/jobs/{job}/state/revenue/default/key-groups")

    assert isinstance(cluster.inspector.asked[0], CountKeyGroups)
    assert (found["max_parallelism"], found["empty_groups"]) == (720, 718)
    assert found["skew"] == {"rows": 3 / (4 / 720), "bytes": 100 / (200 / 720)}
    assert found["groups"][0] == {"key_group": 1, "subtask": 1, "rows": 3, "bytes": 100}


async def test_a_state_without_a_key_is_one_group_and_even(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    await complete(cluster, job, runner)
    group = KeyGroupCount(key_group=None, subtask=0, rows=1, bytes=16)
    cluster.inspector.answers = [KeyGroupCounts(max_parallelism=720, groups=[group])]
    found = await cluster.get(f"/v1/jobs/{job}/state/revenue/default/key-groups")
    assert (found["empty_groups"], found["skew"]) == (0, {"rows": 1.0, "bytes": 1.0})


async def test_what_is_not_there_is_said_without_asking_the_inspector(cluster: Cluster) -> None:
    stateless = await cluster.submit(a_document(vertices=STATELESS))
    batch = await cluster.submit(a_document(mode="batch", vertices=batch_vertices()))
    fresh, runner = await cluster.running(a_document())
    early, early_runner = await cluster.running(a_document())
    await complete(cluster, early, early_runner, out=a_region(None))
    told = {
        name: await refused(cluster, f"/v1/jobs/{job}/state")
        for name, job in {"stateless": stateless, "batch": batch, "fresh": fresh, "early": early}
        .items()
    }  # fmt: skip
    await complete(cluster, fresh, runner)
    unknown = await refused(cluster, f"/v1/jobs/{fresh}/state/bids/default")
    malformed = await refused(cluster, f"/v1/jobs/{fresh}/state/revenue/default?cursor=1.2")

    assert told["stateless"][:2] == (404, "StateNotFound")
    assert told["stateless"][2].endswith(
        "has no stateful vertices, only bids (source), big (filter), out (sink)"
    )
    assert told["batch"][0] == 404
    assert told["fresh"][:2] == (409, "NoStateYet")
    assert f"POST /v1/jobs/{fresh}/checkpoints" in told["fresh"][2]
    assert told["early"][:2] == (409, "NoStateYet")
    assert "before the first batch" in told["early"][2]
    assert unknown[:2] == (404, "StateNotFound")
    assert "it has state of revenue" in unknown[2]
    assert malformed[:2] == (400, "MalformedRequest")
    assert cluster.inspector.asked == []


def batch_vertices() -> list[dict[str, Any]]:
    vertices: list[dict[str, Any]] = a_document()["vertices"]
    vertices[0]["rows"] = 10
    return vertices


async def test_a_vertex_in_two_regions_is_asked_for_with_its_region(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    await complete(cluster, job, runner, out=a_region(3, "revenue"), more=a_region(2, "revenue"))
    cluster.inspector.answers = [rows(a_row())]
    path = f"/v1/jobs/{job}/state/revenue/default"

    status, _, told = await refused(cluster, path)
    found = await cluster.get(f"{path}?region=more")

    assert (status, "region out and in region more" in told) == (404, True)
    assert found["region"] == "more"


async def test_a_savepoint_that_is_not_complete_has_no_state_to_read(cluster: Cluster) -> None:
    job, _ = await cluster.running(a_document())
    await cluster.http.post(f"/v1/jobs/{job}/savepoints", json={})
    [savepoint] = [
        one for one in (await cluster.get("/v1/savepoints"))["items"] if one["job"] == job
    ]
    status, kind, told = await refused(cluster, f"/v1/savepoints/{savepoint['id']}/state")
    assert (status, kind) == (409, "NoStateYet")
    assert "is in_progress: only a completed savepoint can be read" in told
    unknown = await refused(cluster, f"/v1/savepoints/{uuid4().hex}/state")
    assert unknown[:2] == (404, "SavepointNotFound")


async def test_the_inspector_says_how_it_is(cluster: Cluster) -> None:
    assert (await cluster.get("/v1/inspector"))["state"] == "stopped"
