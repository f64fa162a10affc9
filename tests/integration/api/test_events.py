"""Events over real HTTP: without gaps, resumable, on every server, and for a bounded price."""

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlparse
from uuid import UUID, uuid4

import httpx
import pytest

from jobmanager.api import events as event_routes
from jobmanager.core.ids import JobId
from jobmanager.core.life.records import HistoryEntry
from jobmanager.services import events, jobs
from jobmanager.services.events import EventHub
from jobmanager.services.ports.history import Actor
from jobmanager.store.database import Database, open_database
from tests.integration.api.test_changes import AT_FOUR, next_attempt, proved, rescale, stopped
from tests.support.builders import NOW, a_document
from tests.support.cluster import EVERYONE, Cluster
from tests.support.databases import PATIENT
from tests.support.streams import StreamEnded, awake, context_of, reading, served

pytestmark = pytest.mark.anyio


@dataclass
class Live:
    """A cluster whose routes are reached over HTTP, with its hub awake."""

    cluster: Cluster
    hub: EventHub
    url: str


@pytest.fixture
async def live(cluster: Cluster, database: Database) -> AsyncIterator[Live]:
    app = cluster.app
    hub = context_of(app).events
    async with awake(hub, database), served(app) as url:
        yield Live(cluster, hub, url)


async def newest(database: Database) -> int:
    async with database.unit_of_work() as uow:
        return await uow.history.newest()


async def history(cluster: Cluster, job: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await cluster.get(f"/v1/jobs/{job}/history"))["items"]
    return items


async def test_a_stream_tells_the_history_as_it_is_written(live: Live) -> None:
    async with reading(live.url) as stream:
        job, runner = await live.cluster.running(a_document())
        told = await stream.many(5)
        await runner.say("finished")
        end = await stream.next("job_finished")

    kept = await history(live.cluster, job)
    assert [one["event"] for one in told] == [one["kind"] for one in kept[:5]]
    assert [int(one["id"]) for one in told] == [one["id"] for one in kept[:5]]
    assert end["data"]["job"] == job
    assert (end["data"]["name"], end["data"]["state"]) == ("revenue", "finished")
    assert {**end["data"], "at": None}.items() >= {**kept[-1], "at": None}.items()


async def test_a_stream_of_one_job_tells_nothing_of_others(live: Live) -> None:
    mine, runner = await live.cluster.running(a_document())
    async with reading(live.url, f"/v1/jobs/{mine}/events") as stream:
        await live.cluster.running(a_document())
        await runner.say("finished")
        told = [await stream.next() for _ in range(2)]

    assert {one["data"]["job"] for one in told} == {mine}


async def test_a_stream_goes_on_after_the_last_event_it_told(live: Live) -> None:
    job, runner = await live.cluster.running(a_document())
    kept = await history(live.cluster, job)
    async with reading(live.url, last_event_id=kept[1]["id"]) as stream:
        missed = await stream.many(4)
        await runner.say("finished")
        live_ones = await stream.many(2)

    told = [int(one["id"]) for one in missed + live_ones]
    assert told == [one["id"] for one in (await history(live.cluster, job))[2:]]


async def test_a_job_that_is_not_there_has_no_stream(live: Live) -> None:
    answer = await live.cluster.http.get(f"/v1/jobs/{'0' * 32}/events")

    assert answer.status_code == 404
    assert live.hub.streams == 0


async def test_ids_ascend_in_the_order_in_which_entries_can_be_seen(database: Database) -> None:
    """A transaction that begins first and commits last has the last ids: whoever reads on
    after an id misses nothing.
    """
    job = await a_job(database)
    async with database.unit_of_work() as slow:
        await slow.history.add(job, HistoryEntry(NOW, "slow", "began first"))
        async with database.unit_of_work() as quick:
            await quick.history.add(job, HistoryEntry(NOW, "quick", "began second"))
            await quick.commit()
        async with database.unit_of_work() as reader:
            seen = await reader.history.after(0, 1000, job)
        await slow.commit()
    async with database.unit_of_work() as reader:
        rest = await reader.history.after(seen[-1].id, 1000, job)

    assert seen[-1].entry.kind == "quick"
    assert [one.entry.kind for one in rest] == ["slow"]


async def test_a_reader_that_follows_ids_misses_nothing_of_many_writers(
    database: Database,
) -> None:
    """With plain ids this fails: of two writers the one with the higher id may commit first."""
    job, start = await a_job(database), await newest(database)
    writers, each = 8, 25

    async def write(number: int) -> None:
        for step in range(each):
            async with database.unit_of_work() as uow:
                await uow.history.add(job, HistoryEntry(NOW, f"w{number}", str(step)))
                await asyncio.sleep(random.random() / 200)
                await uow.history.add(job, HistoryEntry(NOW, f"w{number}", f"{step} again"))
                await uow.commit()

    async def follow() -> list[int]:
        seen: list[int] = []
        while len(seen) < 2 * writers * each:
            async with database.unit_of_work() as uow:
                page = await uow.history.after(seen[-1] if seen else start, 1000)
            seen += [one.id for one in page]
        return seen

    following = asyncio.create_task(follow())
    await asyncio.gather(*(write(number) for number in range(writers)))
    seen = await asyncio.wait_for(following, 30)

    async with database.unit_of_work() as uow:
        kept = await uow.history.after(start, 1000)
    assert seen == [one.id for one in kept]


async def test_a_client_that_comes_back_again_and_again_misses_nothing_and_hears_nothing_twice(
    live: Live, database: Database
) -> None:
    job = await a_job(database)
    start, count = await newest(database), 120

    async def write() -> None:
        for step in range(count):
            async with database.unit_of_work() as uow:
                await uow.history.add(job, HistoryEntry(NOW, "step", str(step)))
                await uow.commit()
            await asyncio.sleep(0.002)

    writing = asyncio.create_task(write())
    told: list[str] = []
    last = start
    while len(told) < count:
        async with reading(live.url, last_event_id=last) as stream:
            for _ in range(min(random.randint(1, 30), count - len(told))):
                event = await stream.next("step")
                told.append(event["data"]["cause"])
                last = int(event["id"])
    await writing

    assert told == [str(step) for step in range(count)]


@pytest.mark.parametrize("hears", [True, False])
async def test_a_server_that_does_not_lead_tells_what_happens_on_the_other(
    cluster: Cluster, database_url: str, hears: bool
) -> None:
    """By NOTIFY, and without it by looking."""
    follower = open_database(database_url, PATIENT)
    hub = EventHub(follower.unit_of_work)
    try:
        async with awake(hub, follower, hears=hears):
            stream = hub.subscribe(None)
            following = stream.follow(None, beat_every=0.05)
            assert await anext(following) is None  # it listens
            job = await cluster.submit(a_document())
            async with asyncio.timeout(10):
                first = await anext(one async for one in following if one is not None)
            stream.close()
    finally:
        await follower.close()

    assert (first.kind, first.data["job"]) == ("job_submitted", job)


async def test_progress_and_acks_are_told_live_and_kept_nowhere(live: Live) -> None:
    job, runner = await live.cluster.running(a_document())
    async with reading(live.url, f"/v1/jobs/{job}/events") as stream:
        await runner.beat({"region": "out", "batch": 3, "is_active": True})
        live.hub.wake.set()
        progress = await stream.next("progress")
        await live.cluster.http.post(f"/v1/jobs/{job}/checkpoints")
        await runner.ack(1, *EVERYONE[:3])
        first = await stream.next("checkpoint_ack")
        await runner.ack(1, EVERYONE[3])
        second = await stream.next("checkpoint_ack")

    assert "id" not in progress
    assert progress["data"]["regions"][0]["batch"] == 3
    assert progress["data"]["state"] == "running"
    assert (first["data"]["acked"], first["data"]["awaited"]) == (3, 1)
    assert (second["data"]["status"], second["data"]["subtasks"]) == ("completed", ["out/out/0"])
    kinds = {one["kind"] for one in await history(live.cluster, job)}
    assert not kinds & {"progress", "checkpoint_ack"}


async def test_progress_comes_once_a_second_at_most(live: Live) -> None:
    job, runner = await live.cluster.running(a_document())
    stream = live.hub.subscribe(JobId(UUID(job)))
    await live.hub.join()
    for _ in range(5):
        await runner.beat({"region": "out", "batch": 3, "is_active": True})
        await live.hub.run_once()
        live.cluster.clock.pass_time(0.2)
    stream.close()

    assert len(await told(stream)) == 1


async def test_a_client_that_does_not_keep_up_is_let_go(live: Live) -> None:
    job = JobId(uuid4())
    slow, quick = live.hub.subscribe(None), live.hub.subscribe(None)
    following = quick.follow(await live.hub.join(), beat_every=10)
    for number in range(events.MOST_WAITING + 1):
        live.hub._offer(events.Event("x", job, {"number": number}))
        assert (await anext(following)) is not None

    assert (slow.is_open, quick.is_open) == (False, True)
    assert live.hub.streams == 1


async def test_a_client_that_takes_nothing_from_its_connection_is_let_go(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_routes, "SEND_SECONDS", 0.3)
    address = urlparse(live.url)
    with socket.create_connection((str(address.hostname), int(address.port or 0))) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await until(lambda: live.hub.streams == 1)
        long = events.Event("x", JobId(uuid4()), {"text": "x" * 50_000})
        for _ in range(1500):
            live.hub._offer(long)
            await asyncio.sleep(0.005)
            if live.hub.streams == 0:
                break

        await until(lambda: live.hub.streams == 0)


async def test_streams_have_a_limit(live: Live) -> None:
    live.hub._most_streams = 2
    async with AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(reading(live.url))
        async with httpx.AsyncClient(trust_env=False) as http:
            refused = await http.get(f"{live.url}/v1/events")

    assert refused.status_code == 503
    assert refused.json()["title"] == "Too many event streams are open"
    await until(lambda: live.hub.streams == 0)  # who has gone counts no more


async def test_a_silent_stream_shows_that_it_lives(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_routes, "BEAT_SECONDS", 0.05)
    async with reading(live.url) as stream:
        waiting = asyncio.create_task(stream.next("no such kind", within=60))
        await until(lambda: stream.comments >= 2)
        waiting.cancel()


async def test_no_connection_is_held_while_a_stream_waits(live: Live, database: Database) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(20):
            await stack.enter_async_context(reading(live.url))
        await asyncio.sleep(0.3)
        in_use = database.engine.pool.checkedout()  # type: ignore[attr-defined]

    assert in_use == 0


async def test_a_server_that_ends_ends_its_streams(live: Live) -> None:
    async with reading(live.url) as stream:
        live.hub.close()
        with pytest.raises(StreamEnded):
            await stream.next()


async def test_who_caused_it_is_told(cluster: Cluster) -> None:
    job, _ = await cluster.running(a_document())
    cluster.clock.pass_time(31)
    await cluster.reaper.run_once()

    actors = {one["kind"]: one["actor"] for one in await history(cluster, job)}

    assert actors["job_submitted"] == Actor.CLIENT
    assert actors["job_running"] == Actor.RUNNER
    assert actors["attempt_failed"] == actors["job_restarting"] == Actor.JOBMANAGER


async def test_the_end_of_an_operation_says_how_long_each_phase_took(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document(max_parallelism=8))
    await rescale(cluster, job, 4)
    cluster.clock.pass_time(2)
    await stopped(runner)
    second = next_attempt(runner)
    cluster.clock.pass_time(3)
    await second.say("prepared", repartitioned=[])
    await second.say("running", restored=[])
    cluster.clock.pass_time(1)
    await proved(cluster, second, 2, *AT_FOUR)

    [end] = [one for one in await history(cluster, job) if one["kind"] == "rescale_completed"]

    assert end["detail"]["phases_ms"] == {
        "savepoint": 2000,
        "stop": 0,
        "repartition": 3000,
        "start": 0,
        "first_batch": 1000,
    }
    assert end["detail"]["total_ms"] == 6000


async def test_a_checkpoint_that_its_attempt_took_along_is_in_the_history(
    cluster: Cluster,
) -> None:
    job, runner = await cluster.running(a_document())
    await cluster.http.post(f"/v1/jobs/{job}/checkpoints")

    await runner.fail()

    [aborted] = [one for one in await history(cluster, job) if one["kind"] == "checkpoint_aborted"]
    assert aborted["checkpoint"] == 1
    assert "attempt_ended" in aborted["cause"]


async def a_job(database: Database) -> JobId:
    job_id = JobId(uuid4())
    return await jobs.submit(database.unit_of_work(), job_id, a_document(), None, None, NOW)


async def told(stream: events.Subscription) -> list[events.Event]:
    """What waits in a subscription that was closed."""
    found: list[events.Event] = []
    while not stream._events.empty():
        one = stream._events.get_nowait()
        if one is not None:
            found.append(one)
    return found


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(1500):
        if condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it did not come to that")
