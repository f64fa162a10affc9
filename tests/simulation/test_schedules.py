"""Ten thousand schedules, none of which breaks an invariant."""

import os

import pytest

from tests.simulation import schedule

SCHEDULES = int(os.environ.get("SCHEDULES", "10000"))
CHUNK = 250


@pytest.mark.parametrize("first", range(0, SCHEDULES, CHUNK))
def test_no_schedule_breaks_an_invariant(first: int) -> None:
    for seed in range(first, min(first + CHUNK, SCHEDULES)):
        outcome = schedule.run(seed)
        if outcome.failure is not None:
            pytest.fail(_told(seed, outcome.failure), pytrace=False)


def test_a_seed_is_the_same_schedule_every_time() -> None:
    one, another = (schedule.run(17, is_told=True) for _ in range(2))
    assert one.story == another.story
    assert len(one.story) > 50


def _told(seed: int, failure: schedule.Failure) -> str:
    simplest = schedule.shrunk(failure)
    assert simplest.failure is not None
    story = "\n".join(simplest.story[-60:])
    return (
        f"{story}\ninvariant {simplest.failure.invariant}: {simplest.failure.detail}\n"
        f"the whole story: SEED={seed} make simulate"
    )
