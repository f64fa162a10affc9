"""Clocks that are wrong: the server's, the runner's, and the database's in the past."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from jobmanager.core.life.attempt import RunnerWentSilent
from jobmanager.loops.checkpoint_timer import CheckpointTimer
from jobmanager.loops.leadership import Leadership, Timing
from jobmanager.loops.reaper import Reaper
from jobmanager.services import runners
from jobmanager.services.clock import SteadyClock
from jobmanager.services.start_progress import StartProgress
from tests.support.builders import a_document
from tests.support.cluster import LIMITS, Cluster, PlayedRunner, a_jobmanager

pytestmark = pytest.mark.anyio
FIVE_HOURS = timedelta(hours=5)


class SteppedServer:
    """The loops of a leader on a machine whose wall clock is stepped, with the real database's."""

    def __init__(self, cluster: Cluster) -> None:
        self.seconds = 1000.0
        self.wall_offset = timedelta()
        self.clock = SteadyClock(lambda: self.seconds, self._wall_clock)
        units = cluster.database.unit_of_work
        self.reaper = Reaper(units, cluster.bench, self.clock, LIMITS, StartProgress())
        self.timer = CheckpointTimer(units, self.clock)

    def _wall_clock(self) -> datetime:
        return datetime.now(UTC) + self.wall_offset

    async def hear_time(self, cluster: Cluster) -> None:
        self.clock.hear(await cluster.database.time(), self.seconds)


async def completed_and_triggered(cluster: Cluster, job: str) -> int:
    counts = (await cluster.get(f"/v1/jobs/{job}/checkpoints"))["counts"]
    return int(counts["total"])


@pytest.mark.parametrize("step", [FIVE_HOURS, -FIVE_HOURS], ids=["forwards", "backwards"])
async def test_a_step_of_the_servers_clock_makes_no_runner_silent_and_stops_no_timer(
    cluster: Cluster, step: timedelta
) -> None:
    server = SteppedServer(cluster)
    await server.hear_time(cluster)
    cluster.clock.now = server.clock()
    server.reaper.failed()
    job, runner = await cluster.running(a_document(checkpointing={"interval": "10s"}))
    await runner.beat()

    server.wall_offset = step
    server.seconds += 11
    cluster.clock.now = server.clock()
    await runner.beat()
    await server.reaper.run_once()
    await server.timer.run_once()

    assert await cluster.state(job) == "RUNNING"
    assert await completed_and_triggered(cluster, job) == 1


async def test_a_barrier_says_how_much_time_is_left_and_not_only_until_when(
    cluster: Cluster,
) -> None:
    job, runner = await cluster.running(
        a_document(checkpointing={"interval": "10s", "timeout": "60s"})
    )
    await cluster.http.post(f"/v1/jobs/{job}/checkpoints")
    cluster.clock.pass_time(20)

    barrier = (await runner.directives())[-1]["body"]

    assert (barrier["kind"], barrier["time_left_ms"]) == ("barrier", 40_000)


async def test_time_does_not_go_back_behind_what_the_last_leader_wrote(cluster: Cluster) -> None:
    later = datetime.now(UTC) + FIVE_HOURS
    cluster.clock.now = later
    await cluster.submit(a_document())

    assert await cluster.database.time() >= later
    async with cluster.database.engine.begin() as connection:
        await connection.execute(text("UPDATE history SET at = at - interval '10 hours'"))
    assert await cluster.database.time() < later


async def beat(runner: PlayedRunner, data_moved: int) -> None:
    said = {"job": str(runner.job), "attempt": runner.attempt, "regions": []}
    answer = await runner.post("heartbeat", {**said, "data_moved": data_moved})
    assert answer.status_code == 200, answer.text


async def test_a_start_without_any_data_fails_and_one_with_data_goes_on(cluster: Cluster) -> None:
    stuck = await cluster.runner(await cluster.submit(a_document()))
    busy = await cluster.runner(await cluster.submit(a_document(name="busy")))
    for runner in (stuck, busy):
        assert (await runner.register()).status_code == 200
    for number in range(26):  # nearly eleven minutes, and nobody is silent
        await beat(stuck, 7)
        await beat(busy, number)
        await cluster.reaper.run_once()
        cluster.clock.pass_time(25)

    status = await cluster.get(f"/v1/jobs/{stuck.job.hex}/status")
    assert status["status"] == "RESTARTING"
    assert "read and written nothing for" in status["reason"]
    assert (await cluster.get(f"/v1/jobs/{busy.job.hex}/status"))["status"] == "INITIALIZING"


async def test_a_heartbeat_that_comes_while_silence_is_judged_counts(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())
    async with cluster.database.unit_of_work() as uow:
        judged = await uow.runners.get(runner.id)
    cluster.clock.pass_time(31)
    await runner.beat()

    late = RunnerWentSilent(cluster.clock(), timedelta(seconds=31))
    await runners.overdue(cluster.database.unit_of_work(), judged, late)

    assert await cluster.state(job) == "RUNNING"


async def test_a_leader_hears_the_databases_time_with_every_look(
    cluster: Cluster,
) -> None:
    heard: list[tuple[datetime, float]] = []
    leadership = Leadership(
        cluster.database.leases,
        a_jobmanager("http://other"),
        Timing(),
        hear_time=lambda read, seconds: heard.append((read, seconds)),
    )
    await leadership.run_once()
    assert heard
    assert abs(heard[0][0] - datetime.now(UTC)) < timedelta(minutes=1)
