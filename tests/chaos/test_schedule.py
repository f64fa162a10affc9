"""Schedules are data: replayable, complete, and within their limits."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.chaos.schedule import PARALLELISMS, Fault, Limits, make

LIMITS = Limits(heartbeat_timeout=8, lease=3)
seeds = st.integers(0, 2**63)


@given(seeds)
def test_a_seed_gives_the_same_schedule_again_and_a_longer_one_goes_on_from_it(seed: int) -> None:
    short, again, longer = make(seed, 6, LIMITS), make(seed, 6, LIMITS), make(seed, 20, LIMITS)

    assert short == again
    assert longer.steps[:6] == short.steps
    assert longer.shows_at_checkpoint == short.shows_at_checkpoint
    assert str(seed) in str(short)


@given(seeds)
def test_every_fault_comes_before_any_comes_again(seed: int) -> None:
    steps = make(seed, 2 * len(Fault), LIMITS).steps

    for half in (steps[: len(Fault)], steps[len(Fault) :]):
        assert {step.fault for step in half} == set(Fault)


@given(seeds)
def test_a_lost_runner_is_lost_and_a_frozen_one_is_not(seed: int) -> None:
    for step in make(seed, len(Fault), LIMITS).steps:
        assert step.seconds > 0
        assert step.number in PARALLELISMS
        if step.fault is Fault.LOSE_RUNNER:
            assert step.seconds > LIMITS.heartbeat_timeout
        if step.fault is Fault.FREEZE_RUNNER:
            assert step.seconds < LIMITS.heartbeat_timeout


@given(seeds)
def test_the_job_recovers_at_least_after_every_second_fault(seed: int) -> None:
    steps = make(seed, 30, LIMITS).steps

    assert all(a.settles or b.settles for a, b in pairwise(steps))


def test_other_seeds_give_other_schedules() -> None:
    assert len({make(seed, 6, LIMITS).steps for seed in range(50)}) == 50
