"""Random harm to real processes: output stays exactly once, and every invariant holds.

HEADGATE_CHAOS_SEED=n replays the schedule of a seed, HEADGATE_CHAOS_STEPS says how long it is,
HEADGATE_CHAOS_MINUTES how long the long test goes on with one seed after the other, or
HEADGATE_CHAOS_SEEDS with how many. HEADGATE_CHAOS_SEEDS_A_WORLD=5 gives the same servers and the
same job to five seeds in a row, which takes half of the time. HEADGATE_CHAOS_WARM_RUNNERS=1 has a
spare process take over from a runner that was killed. Of a run that failed
HEADGATE_CHAOS_KEEP=directory keeps all files. On a machine that has much else to do,
HEADGATE_CHAOS_SLOWER=3 makes leases and heartbeat timeouts, the faults that are measured by them,
and the time that a recovery may take, three times as long.
"""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.chaos import verdict
from tests.chaos.harm import Harm
from tests.chaos.schedule import Schedule, make
from tests.chaos.world import LIMITS, World, a_world

ALWAYS = 3843
"""The seed of the short run, unless another is named. The long run draws new seeds."""
SHORT, LONG = 3, 12
"""Steps."""


@pytest.mark.timeout(1200)
@pytest.mark.long
def test_a_short_run() -> None:
    seed = int(os.environ.get("HEADGATE_CHAOS_SEED", ALWAYS))
    length = int(os.environ.get("HEADGATE_CHAOS_STEPS", SHORT))
    run([make(seed, length, LIMITS)])


@pytest.mark.long
@pytest.mark.timeout(0)
def test_a_long_run() -> None:
    minutes = float(os.environ.get("HEADGATE_CHAOS_MINUTES", 10))
    first = int(os.environ.get("HEADGATE_CHAOS_SEED", time.time_ns() % 1_000_000))
    length = int(os.environ.get("HEADGATE_CHAOS_STEPS", LONG))
    together = int(os.environ.get("HEADGATE_CHAOS_SEEDS_A_WORLD", 1))
    most = int(os.environ.get("HEADGATE_CHAOS_SEEDS", 0))
    deadline, seed = time.monotonic() + minutes * 60, first
    while seed < first + most if most else time.monotonic() < deadline:
        run([make(one, length, LIMITS) for one in range(seed, seed + together)])
        seed += together
        tell(f"chaos: seeds {first} to {seed - 1}, {length} steps each, nothing found so far")


def run(schedules: Sequence[Schedule]) -> None:
    """One world, one job, and one schedule after the other."""
    warm_runners = int(os.environ.get("HEADGATE_CHAOS_WARM_RUNNERS", 0))
    with (
        tempfile.TemporaryDirectory(prefix="hg", ignore_cleanup_errors=True) as name,
        a_world(Path(name), warm_runners) as world,
    ):
        harm = Harm(world)
        world.submit(shows_at_checkpoint=schedules[0].shows_at_checkpoint)
        for schedule in schedules:
            tell(str(schedule))
            try:
                harm.carry_out(schedule)
                harm.heal()
                world.recover()
                verdict.check_meanwhile(world)
                if schedule is schedules[-1]:
                    verdict.check_end(world)
            except BaseException as error:
                tell("\n".join(["", *evidence(world), "", *harm.notes]))
                error.add_note(how_to_replay(schedules, schedule))
                raise


def how_to_replay(schedules: Sequence[Schedule], schedule: Schedule) -> str:
    before = [str(one.seed) for one in schedules if one is not schedule]
    more = f" (the same world had seed {', '.join(before)} too)" if before else ""
    command = (
        f"HEADGATE_CHAOS_SEED={schedule.seed} HEADGATE_CHAOS_STEPS={len(schedule.steps)} "
        "python -m pytest tests/chaos -k short"
    )
    return f"{schedule}\nreplay it: {command}{more}"


def evidence(world: World) -> list[str]:
    """The ends of all logs."""
    if "HEADGATE_CHAOS_KEEP" in os.environ:
        no_sockets = shutil.ignore_patterns(".s.PGSQL*")
        shutil.copytree(world.directory, os.environ["HEADGATE_CHAOS_KEEP"], ignore=no_sockets)
    found = []
    for server in world.servers:
        logs = [server.log, *(server.directory / "runners").glob("*/runner.log")]
        for log in logs:
            lines = log.read_text(errors="replace").splitlines()[-15:]
            found += [f"== {log}", *(line[:300] for line in lines)]
    return found


def tell(text: str) -> None:
    """Past pytest's capture: a seed that nobody saw cannot be replayed."""
    sys.__stderr__.write(f"{text}\n")  # type: ignore[union-attr]
    sys.__stderr__.flush()  # type: ignore[union-attr]
