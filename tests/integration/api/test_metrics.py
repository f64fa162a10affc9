"""Figures for Prometheus: true, cheap, and never more of them than there are live jobs."""

import asyncio
from uuid import UUID

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import event, text

from jobmanager.store.database import Database
from tests.integration.api.test_changes import rescale
from tests.support.builders import NOW, a_document
from tests.support.cluster import EVERYONE, Cluster
from tests.support.streams import context_of

pytestmark = pytest.mark.anyio


class Scraped:
    def __init__(self, exposition: str) -> None:
        self.families = {one.name: one for one in text_string_to_metric_families(exposition)}

    def value(self, sample: str, **labels: str) -> float | None:
        """Of the one sample with these labels and perhaps more."""
        found = [
            one.value
            for family in self.families.values()
            for one in family.samples
            if one.name == sample and labels.items() <= one.labels.items()
        ]
        assert len(found) <= 1, found
        return found[0] if found else None

    def labels(self) -> set[str]:
        samples = (one for family in self.families.values() for one in family.samples)
        return {value for one in samples for value in one.labels.values()}


async def scrape(cluster: Cluster) -> Scraped:
    context_of(cluster.app).meters._read_at = float("-inf")
    answer = await cluster.http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return Scraped(answer.text)


async def test_jobs_are_counted_by_the_state_they_are_shown_in(cluster: Cluster) -> None:
    before = await scrape(cluster)
    _, runner = await cluster.running(a_document())
    _, stuck = await cluster.running(a_document())
    await stuck.beat({"region": "out", "batch": 3, "is_active": True, "unmoved_ms": 99_000})
    await cluster.watchdog.run_once()
    await cluster.submit(a_document())
    await runner.fail()

    after = await scrape(cluster)

    grown = {
        state: (after.value("headgate_jobs", state=state) or 0)
        - (before.value("headgate_jobs", state=state) or 0)
        for state in ("starting", "running", "stalled", "restarting", "failed")
    }
    assert grown == {"starting": 1, "running": 0, "stalled": 1, "restarting": 1, "failed": 0}
    restarts = [one.value("headgate_restarts_total") or 0 for one in (before, after)]
    assert restarts[1] - restarts[0] == 1


async def test_restarts_that_a_job_has_forgotten_are_counted(
    cluster: Cluster, database: Database
) -> None:
    # Given a job whose failures were all written down by a server of the version before
    job, runner = await cluster.running(a_document())
    before = await scrape(cluster)
    async with database.engine.begin() as connection:
        await connection.execute(
            text("""UPDATE jobs SET failed_at = (
                        SELECT jsonb_agg(to_jsonb(CAST(:at AS timestamptz) - n * interval '1 day')
                            ORDER BY n DESC)
                        FROM generate_series(1, 70) AS n)
                    WHERE id = :job"""),
            {"job": UUID(job), "at": NOW},
        )
    # When it fails again
    await runner.fail()
    # Then the last failures are remembered, and all of them are counted, wherever they are shown
    async with database.engine.connect() as connection:
        kept = await connection.execute(
            text("""SELECT jsonb_array_length(failed_at), forgotten_failures, failures
                    FROM jobs WHERE id = :job"""),
            {"job": UUID(job)},
        )
    assert tuple(kept.one()) == (50, 21, 71)
    scraped = await scrape(cluster)
    restarts = [one.value("headgate_restarts_total") or 0 for one in (before, scraped)]
    assert restarts[1] - restarts[0] == 71
    assert (await cluster.get(f"/v1/jobs/{job}/status"))["restarts"] == 71
    [line] = (await cluster.get(f"/v1/jobs/summary?job={job}"))["items"]
    assert line["restarts"] == 71


async def test_a_job_has_its_gauges_until_it_ends(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    await runner.beat(
        {
            "region": "out",
            "batch": 3,
            "is_active": True,
            "batch_duration_ms": 250,
            "input_rows_per_second": 100.0,
            "state_bytes": 5000,
            "watermark": "2026-11-16T12:00:00Z",
            "progressed_at": "2026-11-16T12:00:07Z",
        }
    )
    await cluster.http.post(f"/v1/jobs/{job}/checkpoints")
    cluster.clock.pass_time(2)
    await runner.ack(1, *EVERYONE)
    cluster.clock.pass_time(3)

    alive = await scrape(cluster)
    await runner.say("finished")
    ended = await scrape(cluster)

    expected = {
        "healthy": 1,
        "restarts": 0,
        "heartbeat_age_seconds": 5,
        "checkpoint_age_seconds": 3,
        "checkpoint_last_duration_seconds": 2,
        "checkpoint_last_bytes": 100,
        "checkpoint_failures": 0,
        "lag_seconds": 7,
        "unmoved_seconds": 0,
        "batch_duration_seconds": 0.25,
        "input_rows_per_second": 100,
        "processed_rows_per_second": 0,
        "state_bytes": 5000,
    }
    found = {name: alive.value(f"headgate_job_{name}", job=job) for name in expected}
    assert found == expected
    assert job not in ended.labels()


async def test_latencies_are_measured_where_they_are_seen(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    await cluster.http.post(f"/v1/jobs/{job}/checkpoints")
    cluster.clock.pass_time(2)
    await runner.ack(1, *EVERYONE[:3])
    cluster.clock.pass_time(2)
    await runner.ack(1, EVERYONE[3])
    await runner.ack(1, EVERYONE[3])  # a repetition is measured once

    found = await scrape(cluster)

    assert found.value("headgate_ack_latency_seconds_count") == 2
    assert found.value("headgate_ack_latency_seconds_sum") == 6
    assert found.value("headgate_checkpoint_duration_seconds_sum", kind="requested") == 4


async def test_requests_are_measured_by_route_and_never_by_path(cluster: Cluster) -> None:
    job, _ = await cluster.running(a_document())
    await cluster.get(f"/v1/jobs/{job}/status")
    await cluster.get(f"/jobs/{job}/status")
    await cluster.http.get(f"/v1/jobs/{'0' * 32}/status")
    await cluster.http.get("/nothing/of/this/kind")

    found = await scrape(cluster)

    count = "headgate_http_request_duration_seconds_count"
    route = "/jobs/{jobid}/status"
    assert found.value(count, method="GET", route=route, status="200") == 2
    assert found.value(count, method="GET", route=route, status="404") == 1
    assert found.value(count, method="GET", route="none", status="404") == 1


async def test_only_gauges_of_live_jobs_are_labelled_with_a_job(cluster: Cluster) -> None:
    job, _ = await cluster.running(a_document())

    found = await scrape(cluster)

    for family in found.families.values():
        named = any("job" in one.labels for one in family.samples)
        assert not named or (family.name.startswith("headgate_job_") and family.type == "gauge")
        assert family.name.startswith("headgate_")
        assert family.documentation
    assert job in found.labels()


async def test_the_outbox_and_operations_under_way_are_counted(cluster: Cluster) -> None:
    job, _ = await cluster.running(a_document(max_parallelism=8))
    before = await scrape(cluster)
    await rescale(cluster, job, 4)
    cluster.clock.pass_time(5)

    after = await scrape(cluster)

    depths = [one.value("headgate_outbox_depth", target="runner") or 0 for one in (before, after)]
    assert depths[1] == depths[0] + 1
    assert (after.value("headgate_outbox_oldest_seconds") or 0) >= 5
    assert after.value("headgate_operations_in_progress", kind="rescale") == 1
    assert (after.value("headgate_runners") or 0) >= 1


async def test_scrapes_in_quick_succession_read_postgres_once(cluster: Cluster) -> None:
    statements: list[str] = []
    engine = cluster.database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", lambda *args: statements.append(args[2]))

    await asyncio.gather(*(cluster.http.get("/metrics") for _ in range(10)))

    reads = [one for one in statements if "FROM jobs GROUP BY" in " ".join(one.split())]
    assert len(reads) == 1
    assert len(statements) <= 8


async def test_prometheus_may_ask_for_openmetrics(cluster: Cluster) -> None:
    accept = "application/openmetrics-text; version=1.0.0"
    answer = await cluster.http.get("/metrics", headers={"Accept": accept})

    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")


async def test_the_lag_of_a_source_is_there_for_each_partition(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    lag = {"partition": "bids-1", "position": 5, "end": 9, "rows": 4, "seconds": 2.5}
    unmeasured = {"partition": "bids-2", "position": 0, "end": 3, "rows": 3, "seconds": None}
    source = {"vertex": "bids", "lags": [lag, unmeasured], "unreadable_rows": 2}
    await runner.beat({"region": "out", "batch": 3, "is_active": True, "sources": [source]})

    found = await scrape(cluster)

    at = {"job": UUID(str(job)).hex, "vertex": "bids"}
    assert found.value("headgate_source_lag_rows", **at, partition="bids-1") == 4
    assert found.value("headgate_source_lag_seconds", **at, partition="bids-1") == 2.5
    assert found.value("headgate_source_lag_rows", **at, partition="bids-2") == 3
    assert found.value("headgate_source_lag_seconds", **at, partition="bids-2") is None
    assert found.value("headgate_source_unreadable_rows", **at) == 2
