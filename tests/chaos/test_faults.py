"""Each of the harder faults alone, and what servers and runners say of it."""

import json
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.chaos import verdict
from tests.chaos.harm import Harm, kill_with_children
from tests.chaos.relay import Manner
from tests.chaos.test_chaos import evidence, tell
from tests.chaos.world import LIMITS, World, a_world
from tests.support.server import ServerProcess, eventually

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]


@contextmanager
def a_job(*, shows_at_checkpoint: bool = False) -> Iterator[tuple[World, Harm]]:
    """A job that runs; after the block it recovers, and everything is looked at."""
    with (
        tempfile.TemporaryDirectory(prefix="hg", ignore_cleanup_errors=True) as name,
        a_world(Path(name), warm_runners=0) as world,
    ):
        harm = Harm(world)
        try:
            world.submit(shows_at_checkpoint=shows_at_checkpoint)
            yield world, harm
            harm.heal()
            world.recover()
            verdict.check_meanwhile(world)
            verdict.check_end(world)
        except BaseException:
            tell("\n".join(["", *evidence(world), "", *harm.notes]))
            raise
        if harm.left_out:
            pytest.skip("; ".join(harm.left_out))


def history(world: World) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = world.get(
        f"/v1/jobs/{world.job}/history?newest_first=true&limit=1000"
    )["items"]
    return found


def term(world: World) -> int:
    return int(world.get("/v1/jobmanagers")["term"])


@pytest.mark.parametrize("shows_at_checkpoint", [False, True])
def test_a_full_disk_is_named_and_the_job_goes_on_when_there_is_space(
    shows_at_checkpoint: bool,
) -> None:
    with a_job(shows_at_checkpoint=shows_at_checkpoint) as (world, harm):
        harm.fill_disk(10)
        if not harm.left_out:
            said = json.dumps(history(world))
            assert "no space left on" in said.lower(), said


@pytest.mark.parametrize("shows_at_checkpoint", [False, True])
def test_a_power_cut_costs_what_was_not_synced_and_no_row(shows_at_checkpoint: bool) -> None:
    with a_job(shows_at_checkpoint=shows_at_checkpoint) as (world, harm):
        for _ in range(3):
            losses = harm.cut_power(0.5)
            if losses is not None:
                assert losses.gone or losses.emptied, "nothing was lost: nothing was shown"
            world.recover()
            verdict.check_meanwhile(world)


def test_servers_that_cannot_reach_each_other_answer_and_the_job_goes_on() -> None:
    with a_job() as (world, _):
        leader = eventually(world.leader, within=60)
        follower = next(one for one in world.servers if one is not leader)
        led_in, attempt = term(world), world.status()["attempt"]
        for relay in world.relays:
            relay.manner = Manner.APART

        assert follower.http.get(f"/v1/jobs/{world.job}/status").status_code == 200
        world.recover()

        for relay in world.relays:
            relay.manner = Manner.HONEST
        assert (term(world), world.status()["attempt"]) == (led_in, attempt)


def test_a_leader_without_its_database_is_replaced_and_the_job_goes_on() -> None:
    with a_job() as (world, _):
        before, attempt = eventually(world.leader, within=60), world.status()["attempt"]
        led_in = term(world)
        relay = world.database_relays[world.servers.index(before)]
        relay.cut()

        def replaced() -> bool:
            found = world.leader()
            return found is not None and found is not before

        eventually(replaced, within=60)
        world.recover()
        assert before.http.get("/readyz", timeout=60).status_code == 503

        relay.heal()
        eventually(lambda: before.http.get("/readyz", timeout=60).is_success, within=60)
        assert world.status()["attempt"] == attempt
        assert term(world) == led_in + 1


@pytest.mark.parametrize("hours", [5, -5])
def test_nobody_notices_that_the_servers_clock_is_wrong(hours: float) -> None:
    with a_job() as (world, harm):
        led_in, attempt = term(world), world.status()["attempt"]

        harm.step_clock(hours, seconds=LIMITS.heartbeat_timeout + 3)
        world.recover()

        assert (term(world), world.status()["attempt"]) == (led_in, attempt)


def test_postgres_is_killed_under_load_and_keeps_all_that_was_accepted() -> None:
    with a_job() as (world, harm):
        attempt = world.status()["attempt"]
        for seconds in (0.5, 2.5):
            harm.kill_postgres(seconds)
            world.recover()
            verdict.check_meanwhile(world)
        assert world.status()["attempt"] == attempt


def test_a_server_starts_its_own_postgres_again() -> None:
    with tempfile.TemporaryDirectory(prefix="hg", ignore_cleanup_errors=True) as name:
        server = ServerProcess(Path(name) / "server").start()
        try:
            data = server.directory / "postgres"
            kill_with_children(int((data / "postmaster.pid").read_text().split()[0]))
            assert server.http.get("/readyz", timeout=30).status_code == 503
            eventually(lambda: server.http.get("/readyz", timeout=30).is_success, within=60)
            assert server.http.get("/jobs").status_code == 200
        finally:
            server.stop(signal.SIGTERM)
            server.clean_up()
