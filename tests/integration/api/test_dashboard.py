"""What the dashboard asks for: its own files, a line about each job, samples, logs."""

from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from jobmanager.api import dashboard
from jobmanager.core.ids import RunnerId
from jobmanager.loops.sampler import SampleAging, Sampler
from tests.support.builders import a_document
from tests.support.cluster import Cluster, PlayedRunner

pytestmark = pytest.mark.anyio


def progress(rows: int, batches: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "region": "out",
        "batch": batches,
        "is_active": True,
        "input_rows": rows,
        "output_rows": rows // 10,
        "busy_ms": 100 * batches,
        "measured_batches": batches,
        "phases_ms": {"addBatch": 80 * batches, "walCommit": 20 * batches, "unheardOf": 1},
        "state_bytes": 1000 + rows,
        **more,
    }


# ── its files ─────────────────────────────────────────────────────────────────


async def test_without_a_build_the_page_says_what_to_do_and_the_api_answers(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dashboard, "DIRECTORY", tmp_path / "nothing")

    page = await cluster.http.get("/")
    asset = await cluster.http.get("/assets/index.js")

    assert page.status_code == 404
    assert "make web" in page.text
    assert asset.json() == {"errors": ["Unable to load requested file /assets/index.js."]}
    assert (await cluster.http.get("/v1/jobs")).status_code == 200


async def test_the_page_is_asked_for_again_and_its_assets_are_kept(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<p>here</p>")
    (tmp_path / "assets" / "index-1a2b.js").write_text("1")
    (tmp_path / "secret").write_text("no")
    monkeypatch.setattr(dashboard, "DIRECTORY", tmp_path)

    page = await cluster.http.get("/")
    asset = await cluster.http.get("/assets/index-1a2b.js")

    assert page.text == "<p>here</p>"
    assert page.headers["cache-control"] == "no-cache"
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    assert "immutable" in asset.headers["cache-control"]
    for path in ("/secret", "/assets/..%2fsecret", "/assets/../secret"):
        assert (await cluster.http.get(path)).status_code in (400, 404)


# ── a line about each job ─────────────────────────────────────────────────────


async def test_a_line_says_how_a_job_does(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document(name="lines"))
    await runner.beat(progress(500, input_rows_per_second=12.5))

    page = await cluster.get(f"/v1/jobs/summary?job={job}")
    [line] = page["items"]

    assert (line["id"], line["name"], line["state"], line["mode"]) == (
        job, "lines", "running", "streaming",
    )  # fmt: skip
    assert line["traffic"] == {
        "input_rows": 500,
        "output_rows": 50,
        "input_rows_per_second": 12.5,
        "is_idle": False,
    }
    assert (line["attempt"], line["restarts"], line["parallelism"]) == (1, 0, 2)
    assert line["last_checkpoint"] is None
    assert page["counts"]["running"] >= 1


async def test_lines_come_in_pages_and_can_be_searched(cluster: Cluster) -> None:
    made = []
    for number in range(5):
        cluster.clock.pass_time(1)
        made.append(await cluster.submit(a_document(name=f"paged_{number}_100%")))

    seen: list[str] = []
    cursor: str | None = None
    while True:
        params: dict[str, str | int] = {"q": "PAGED_", "limit": 2}
        if cursor:
            params["cursor"] = cursor
        page = (await cluster.http.get("/v1/jobs/summary", params=params)).json()
        seen += [one["id"] for one in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break

    assert seen == made[::-1]
    by_id = await cluster.get(f"/v1/jobs/summary?q={made[2][:12]}")
    assert [one["id"] for one in by_id["items"]] == [made[2]]
    none = await cluster.get("/v1/jobs/summary?q=paged&state=failed")
    assert none["items"] == []
    # a sign that means something to LIKE is only a sign
    assert len((await cluster.get("/v1/jobs/summary?q=_100%25"))["items"]) == 5
    assert (await cluster.http.get("/v1/jobs/summary?cursor=x")).status_code == 400


async def test_jobs_are_found_by_their_labels(cluster: Cluster) -> None:
    plain = await cluster.submit(a_document(name="plain"))
    one = await cluster.submit(
        a_document(name="one", meta={"owner": "me", "labels": {"tier": "1", "team": "a=b"}})
    )
    two = await cluster.submit(a_document(name="two", meta={"labels": {"tier": "2"}}))

    async def found(*labels: str) -> set[str]:
        answer = await cluster.http.get("/v1/jobs/summary", params={"label": list(labels)})
        assert answer.status_code == 200, answer.text
        return {item["id"] for item in answer.json()["items"]}

    assert await found() >= {plain, one, two}
    assert await found("tier") == {one, two}
    assert await found("tier=1") == {one}
    assert await found("tier", "team=a=b") == {one}
    assert await found("tier=") == set()
    assert await found("no,such}label") == set()
    [line] = (await cluster.get(f"/v1/jobs/summary?job={one}"))["items"]
    assert line["meta"] == {
        "owner": "me",
        "description": None,
        "runbook": None,
        "labels": {"tier": "1", "team": "a=b"},
    }
    listed = (await cluster.get("/v1/jobs/overview"))["jobs"]
    assert {item["jid"]: item["headgate-meta"]["owner"] for item in listed}[one] == "me"


async def test_what_has_not_changed_is_not_sent_again(cluster: Cluster) -> None:
    job = await cluster.submit(a_document(name="tagged"))
    path = f"/v1/jobs/summary?job={job}"
    tag = (await cluster.http.get(path)).headers["etag"]

    again = await cluster.http.get(path, headers={"If-None-Match": tag})
    await cluster.http.patch(f"/v1/jobs/{job}?mode=cancel")
    changed = await cluster.http.get(path, headers={"If-None-Match": tag})

    assert (again.status_code, again.content) == (304, b"")
    assert changed.status_code == 200
    assert changed.json()["items"][0]["state"] in ("cancelling", "cancelled")


# ── samples ───────────────────────────────────────────────────────────────────


async def sampled(cluster: Cluster, runner: PlayedRunner, seconds: int, each: int) -> Sampler:
    """The runner reads `each` rows and runs two batches in each ten seconds."""
    sampler = Sampler(cluster.database.unit_of_work, cluster.clock)
    for number in range(seconds // 10 + 1):
        await runner.beat(progress(each * number, 2 * number))
        await sampler.run_once()
        cluster.clock.pass_time(10)
    return sampler


async def test_samples_are_rates_over_time(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document(name="sampled"))
    await sampled(cluster, runner, seconds=60, each=500)

    found = await cluster.get(f"/v1/jobs/{job}/samples")

    assert found["step_ms"] == 10_000
    [region] = found["regions"]
    assert region["region"] == "out"
    assert region["input_rows_per_second"] == [50.0] * 6
    assert region["output_rows_per_second"] == [5.0] * 6
    assert region["batch_ms"] == [100.0] * 6
    assert region["phases_ms"]["add_batch_ms"] == [80.0] * 6
    assert region["phases_ms"]["wal_commit_ms"] == [20.0] * 6
    assert region["busy"] == [0.02] * 6
    assert region["state_bytes"] == [1000 + 500 * n for n in range(1, 7)]
    [line] = (await cluster.get(f"/v1/jobs/summary?job={job}"))["items"]
    assert line["recent"] == [50.0] * 6


async def test_fewer_points_are_wider_bins_with_the_same_rates(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document(name="binned"))
    await sampled(cluster, runner, seconds=120, each=300)

    [region] = (await cluster.get(f"/v1/jobs/{job}/samples?points=15"))["regions"]

    assert set(region["input_rows_per_second"]) == {30.0}
    assert sum(region["batches"]) == 24
    assert len(region["at"]) < 4


async def test_a_new_attempt_adds_nothing_for_the_time_between(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document(name="restarted"))
    sampler = await sampled(cluster, runner, seconds=20, each=100)
    await runner.fail()
    cluster.clock.pass_time(5)
    await cluster.reaper.run_once()
    second = await cluster.runner(job, attempt=2)
    await second.run()
    await second.beat(progress(7))
    await sampler.run_once()

    [region] = (await cluster.get(f"/v1/jobs/{job}/samples"))["regions"]

    assert region["input_rows_per_second"] == [10.0, 10.0]


async def test_old_samples_are_summed_up_and_nothing_is_lost(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document(name="aged"))
    await sampled(cluster, runner, seconds=600, each=500)
    began = cluster.clock() - timedelta(seconds=620)
    window = {"since": began.isoformat(), "until": (began + timedelta(hours=1)).isoformat()}
    path = f"/v1/jobs/{job}/samples"
    [fine] = (await cluster.http.get(path, params={**window, "points": 6})).json()["regions"]
    aging = SampleAging(cluster.database.unit_of_work, cluster.clock)

    cluster.clock.pass_time(3 * 3600)
    await aging.run_once()
    await aging.run_once()

    assert await resolutions(cluster, job) == {60}
    [coarse] = (await cluster.http.get(path, params={**window, "points": 6})).json()["regions"]
    assert sum(coarse["batches"]) == sum(fine["batches"]) == 120
    assert set(coarse["input_rows_per_second"]) == {50.0}
    cluster.clock.pass_time(3 * 86_400)
    await aging.run_once()
    assert await resolutions(cluster, job) == {600}
    cluster.clock.pass_time(31 * 86_400)
    await aging.run_once()
    assert await resolutions(cluster, job) == set()


async def resolutions(cluster: Cluster, job: str) -> set[int]:
    async with cluster.database.engine.connect() as connection:
        rows = await connection.execute(
            text("SELECT DISTINCT resolution_s FROM samples WHERE job_id = :job"),
            {"job": UUID(job)},
        )
        return {row[0] for row in rows}


async def test_a_range_of_time_has_to_be_one(cluster: Cluster) -> None:
    job = await cluster.submit(a_document(name="ranged"))
    bad = {"since": "2026-11-16T12:00:00Z", "until": "2026-11-16T11:00:00Z"}

    answer = await cluster.http.get(f"/v1/jobs/{job}/samples", params=bad)

    assert answer.status_code == 400
    assert "until has to be after since" in answer.json()["detail"]


# ── runners and their logs ────────────────────────────────────────────────────


async def test_a_runner_says_what_it_takes(cluster: Cluster) -> None:
    _, runner = await cluster.running(a_document(name="sized"))
    memory = {"resident_bytes": 5, "heap_used_bytes": 3, "heap_max_bytes": 4, "slots": 2}
    body = {"job": str(runner.job), "attempt": 1, "regions": []}
    await runner.post("heartbeat", {**body, "memory": {**memory, "java_version": "17.0.1"}})
    await runner.post("heartbeat", body)  # one that says nothing of it changes nothing

    found = await cluster.get("/v1/runners?alive=true")

    [item] = [one for one in found["items"] if one["id"] == str(runner.id)]
    assert {name: item[name] for name in memory} == memory
    assert item["versions"] == {"spark": "4.3.0", "java": "17.0.1", "protocol": "2"}


async def test_a_log_is_cut_and_searched(cluster: Cluster, tmp_path: Path) -> None:
    job, runner = await cluster.running(a_document(name="logged"))
    log = tmp_path / "runner.log"
    log.write_text("".join(f"line {n} {'Odd' if n % 2 else 'even'}\n" for n in range(100)))
    async with cluster.database.engine.begin() as connection:
        await connection.execute(
            text("UPDATE runners SET log_path = :path WHERE id = :id"),
            {"path": str(log), "id": RunnerId(runner.id)},
        )
    path = f"/v1/jobs/{job}/logs"

    last = (await cluster.http.get(path, params={"tail": 3})).text
    odd = (await cluster.http.get(path, params={"search": "ODD", "tail": 2})).text
    all_odd = (await cluster.http.get(path, params={"search": "odd"})).text

    assert last == "line 97 Odd\nline 98 even\nline 99 Odd\n"
    assert odd == "line 97 Odd\nline 99 Odd\n"
    assert len(all_odd.splitlines()) == 50
    assert len((await cluster.http.get(path)).text.splitlines()) == 100

    log.write_bytes(b"x" * 3_000_000 + b" here\nlast\nunfinished")
    assert (await cluster.http.get(path, params={"tail": 1})).text == "last\nunfinished"
    found = (await cluster.http.get(path, params={"search": "here"})).content
    assert len(found) < 1_200_000  # a line without an end is taken piece by piece
    assert found.endswith(b" here\n")


async def test_history_can_be_read_from_its_end(cluster: Cluster) -> None:
    job, _ = await cluster.running(a_document(name="told"))
    forward = (await cluster.get(f"/v1/jobs/{job}/history"))["items"]

    first = await cluster.get(f"/v1/jobs/{job}/history?newest_first=true&limit=2")
    rest = await cluster.get(f"/v1/jobs/{job}/history?newest_first=true&cursor={first['next']}")

    assert [*first["items"], *rest["items"]] == forward[::-1]


# ── what a crash would cost ───────────────────────────────────────────────────


async def test_the_status_says_what_a_crash_would_cost(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document(name="costly"))
    await runner.beat(progress(500))
    unknown = (await cluster.get(f"/v1/jobs/{job}/status"))["crash_cost"]

    await runner.beat(progress(500, uncheckpointed_rows=120, uncheckpointed_busy_ms=800))
    known = (await cluster.get(f"/v1/jobs/{job}/status"))["crash_cost"]
    await runner.fail("no more disk", restartable=True)
    after = (await cluster.get(f"/v1/jobs/{job}/status"))["crash_cost"]

    assert (unknown, after) == (None, None)
    assert (known["rows"], known["replay_ms"], known["is_at_least"]) == (120, 800, False)
    assert known["start_ms"] is not None


# ── whether a job catches up ──────────────────────────────────────────────────


async def test_a_backlog_that_shrinks_has_an_end(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document(name="behind"))
    sampler = Sampler(cluster.database.unit_of_work, cluster.clock)
    unknown = await cluster.get(f"/v1/jobs/{job}/lag")

    for left in range(900, 0, -100):
        source = {"vertex": "bids", "backlog_rows": left}
        await runner.beat(progress(1000 - left, sources=[source]))
        await sampler.run_once()
        cluster.clock.pass_time(10)

    found = await cluster.get(f"/v1/jobs/{job}/lag")
    assert (unknown["trend"], unknown["caught_up_in_ms"]) == ("unknown", None)
    assert (found["trend"], found["backlog_rows"]) == ("shrinking", 100)
    assert 8_000 <= found["caught_up_in_ms"] <= 12_000
    series = (await cluster.get(f"/v1/jobs/{job}/samples"))["regions"][0]
    assert series["backlog_rows"][-1] == 100


async def test_history_can_be_asked_for_some_kinds_since_a_time(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document(name="marked"))
    cluster.clock.pass_time(60)
    since = cluster.clock().isoformat()
    await runner.fail("no more disk", restartable=True)

    async def kinds(**params: Any) -> list[str]:
        answer = await cluster.http.get(f"/v1/jobs/{job}/history", params=params)
        assert answer.status_code == 200, answer.text
        return [one["kind"] for one in answer.json()["items"]]

    wanted = ["job_submitted", "job_restarting"]
    assert await kinds(kind=wanted) == wanted
    assert await kinds(kind=wanted, newest_first=True) == wanted[::-1]
    assert await kinds(kind=wanted, since=since) == ["job_restarting"]
    assert "attempt_failed" in await kinds(since=since)
