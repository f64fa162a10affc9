"""Our answers have every field of a real Flink 2.3 cluster's, with values of the same kind.

`flink_rest/` holds what that cluster answered. Fields of ours may be added, none
renamed or left out: scripts and dashboards of others depend on them.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.builders import a_document
from tests.support.cluster import EVERYONE, Cluster

pytestmark = pytest.mark.anyio
RECORDED = Path(__file__).parent / "flink_rest"


def recorded(name: str) -> Any:
    return json.loads((RECORDED / f"{name}.json").read_text())


def differences(flink: Any, ours: Any, at: str = "") -> list[str]:
    """Where `ours` lacks a field of `flink`, or has one of another kind."""
    if isinstance(flink, dict) and isinstance(ours, dict):
        if _is_keyed_by_id(flink):
            return differences(next(iter(flink.values())), next(iter(ours.values())), f"{at}.<id>")
        missing = [f"{at}.{key} is missing" for key in flink if key not in ours]
        return missing + [
            one
            for key in flink
            if key in ours
            for one in differences(flink[key], ours[key], f"{at}.{key}")
        ]
    if isinstance(flink, list) and isinstance(ours, list):
        if flink and ours:
            return differences(flink[0], ours[0], f"{at}[0]")
        return []
    if _kind(flink) != _kind(ours):
        return [f"{at} is {ours!r}, Flink has {flink!r}"]
    return []


def _is_keyed_by_id(mapping: dict[str, Any]) -> bool:
    return bool(mapping) and all(len(key) == 32 for key in mapping)


def _kind(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "number"
    return "null or object" if value is None or isinstance(value, dict) else type(value).__name__


async def a_job_with_checkpoints(cluster: Cluster) -> str:
    job, runner = await cluster.running(a_document(name="counts"))
    for number in (1, 2):
        await cluster.http.post(f"/v1/jobs/{job}/checkpoints")
        cluster.clock.pass_time(0.1)
        await runner.ack(number, *EVERYONE)
    return job


@pytest.mark.parametrize("prefix", ["", "/v1"])
@pytest.mark.parametrize(
    ("recording", "path"),
    [
        ("jobs", "/jobs"),
        ("jobs_overview", "/jobs/overview"),
        ("job", "/jobs/{job}"),
        ("plan", "/jobs/{job}/plan"),
        ("status", "/jobs/{job}/status"),
        ("job_config", "/jobs/{job}/config"),
        ("exceptions", "/jobs/{job}/exceptions"),
        ("accumulators", "/jobs/{job}/accumulators"),
        ("checkpoints", "/jobs/{job}/checkpoints"),
        ("checkpoints_config", "/jobs/{job}/checkpoints/config"),
        ("checkpoint_detail", "/jobs/{job}/checkpoints/details/2"),
        ("overview", "/overview"),
        ("config", "/config"),
    ],
)
async def test_answers_have_the_fields_of_flinks(
    cluster: Cluster, recording: str, path: str, prefix: str
) -> None:
    job = await a_job_with_checkpoints(cluster)

    ours = await cluster.get(prefix + path.format(job=job))

    assert differences(recorded(recording), ours) == []


@pytest.mark.parametrize(
    ("recording", "path", "status"),
    [
        ("error_bad_job_id", "/v1/jobs/xyz", 400),
        ("error_job_not_found", "/v1/jobs/00000000000000000000000000000000", 404),
        ("error_no_route", "/nothing", 404),
    ],
)
async def test_errors_have_flinks_shape(
    cluster: Cluster, recording: str, path: str, status: int
) -> None:
    answer = await cluster.http.get(path)

    assert answer.status_code == status
    assert differences(recorded(recording), answer.json()) == []
    assert answer.json().keys() == {"errors"}


async def test_the_words_for_states_are_flinks(cluster: Cluster) -> None:
    job = await a_job_with_checkpoints(cluster)
    before = await cluster.get(f"/v1/jobs/{job}")
    await cluster.http.patch(f"/v1/jobs/{job}?mode=cancel")
    during = await cluster.get(f"/v1/jobs/{job}")
    await (await cluster.runner(job)).say("cancelled", detail="")
    after = await cluster.get(f"/v1/jobs/{job}")

    assert [one["state"] for one in (before, during, after)] == [
        "RUNNING",
        "CANCELLING",
        "CANCELED",
    ]
    assert set(after["timestamps"]) == set(recorded("job")["timestamps"])
    assert after["timestamps"]["CANCELED"] > 0
    statuses = {vertex["status"] for vertex in after["vertices"]}
    assert statuses == {"CANCELED"}


async def test_a_vertex_id_in_a_checkpoint_is_that_of_the_job(cluster: Cluster) -> None:
    job = await a_job_with_checkpoints(cluster)

    vertices = {one["id"] for one in (await cluster.get(f"/v1/jobs/{job}"))["vertices"]}
    detail = await cluster.get(f"/v1/jobs/{job}/checkpoints/details/2")

    assert set(detail["tasks"]) == vertices
    counted = sum(task["num_subtasks"] for task in detail["tasks"].values())
    assert counted == detail["num_subtasks"] == 4
