"""Time that advances evenly, whatever the clock that is read does."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from jobmanager.core.steady_time import MOST_CORRECTION, SteadyTime, corrected
from jobmanager.services.clock import SteadyClock

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


class Machine:
    """A monotonic clock, and a wall clock that somebody sets."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.wall = NOON

    def pass_time(self, seconds: float) -> None:
        self.seconds += seconds
        self.wall += timedelta(seconds=seconds)


def test_a_step_of_the_wall_clock_changes_nothing() -> None:
    machine = Machine()
    clock = SteadyClock(lambda: machine.seconds, lambda: machine.wall)
    clock.hear(NOON, machine.seconds)
    for step in (5 * HOUR, -9 * HOUR):
        before = clock()
        machine.wall += step
        machine.pass_time(10)
        assert clock() - before == timedelta(seconds=10)


def test_before_the_database_was_heard_the_wall_clock_counts() -> None:
    machine = Machine()
    assert SteadyClock(lambda: machine.seconds, lambda: machine.wall)() == NOON


def test_a_step_of_the_databases_clock_is_followed_slowly() -> None:
    time = SteadyTime(NOON, 0)
    time = corrected(time, NOON + HOUR + timedelta(seconds=10), 10)
    assert time.at(10) == NOON + timedelta(seconds=11)
    time = corrected(time, NOON - HOUR, 20)
    assert time.at(20) == NOON + timedelta(seconds=20)


def test_a_small_difference_is_gone_at_once() -> None:
    time = corrected(SteadyTime(NOON, 0), NOON + timedelta(seconds=10.2), 10)
    assert time.at(10) == NOON + timedelta(seconds=10.2)


STEPS = st.lists(
    st.tuples(
        st.floats(0.01, 100),
        st.integers(-100_000, 100_000).map(lambda seconds: timedelta(seconds=seconds)),
    ),
    max_size=20,
)


@given(STEPS)
def test_it_never_goes_back_and_never_runs_much_faster_or_slower(
    steps: list[tuple[float, timedelta]],
) -> None:
    seconds, wall, time = 0.0, NOON, SteadyTime(NOON, 0)
    for passed, step in steps:
        before = time.at(seconds)
        seconds += passed
        wall += timedelta(seconds=passed) + step
        time = corrected(time, wall, seconds)
        elapsed = (time.at(seconds) - before).total_seconds()
        assert abs(elapsed - passed) <= MOST_CORRECTION * passed + 1e-5


@given(STEPS, st.floats(0, 1))
def test_what_a_server_wrote_a_moment_ago_is_never_in_its_future(
    steps: list[tuple[float, timedelta]], share: float
) -> None:
    """The database's clock was read a moment before the answer came, so it seems to be late."""
    machine = Machine()
    clock = SteadyClock(lambda: machine.seconds, lambda: machine.wall)
    clock.hear(NOON, machine.seconds)
    latest = clock()
    for passed, step in steps:
        machine.seconds += passed * share
        written_at = clock()
        machine.seconds += passed * (1 - share)
        clock.hear(NOON + timedelta(seconds=machine.seconds) + step, machine.seconds)
        assert latest <= written_at <= clock()
        latest = clock()


def test_a_new_leader_catches_up_with_what_the_last_leader_wrote() -> None:
    machine = Machine()
    clock = SteadyClock(lambda: machine.seconds, lambda: machine.wall)
    clock.hear(NOON, machine.seconds)
    clock.catch_up(NOON + HOUR, machine.seconds)
    assert clock() == NOON + HOUR
    clock.catch_up(NOON, machine.seconds)  # never back
    assert clock() == NOON + HOUR
