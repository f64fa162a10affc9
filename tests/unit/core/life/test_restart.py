from datetime import datetime, timedelta
from itertools import accumulate, cycle, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobmanager.core.graph.job_graph import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    RestartStrategy,
)
from jobmanager.core.life.restart import GiveUp, RestartAfter, decide, remembered
from tests.support.builders import ONE_SECOND, after

MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("failures", "delay"), [(1, 1), (2, 2), (3, 4), (4, 8), (7, 60), (5000, 60)]
)
def test_exponential_delay_doubles_up_to_its_maximum(failures: int, delay: int) -> None:
    strategy = ExponentialDelay(ONE_SECOND, MINUTE, timedelta(hours=1), None)

    decision = decide(strategy, [after(n) for n in range(failures)])

    assert decision == RestartAfter(timedelta(seconds=delay))


def test_a_long_delay_doubles_up_to_a_very_long_limit() -> None:
    limit = timedelta(days=400_000)
    strategy = ExponentialDelay(timedelta(seconds=79), limit, timedelta(hours=1), None)

    assert decide(strategy, [after(0), after(0.1)]) == RestartAfter(timedelta(seconds=158))
    assert decide(strategy, [after(n / 10) for n in range(60)]) == RestartAfter(limit)


def test_exponential_delay_begins_again_after_a_quiet_time() -> None:
    strategy = ExponentialDelay(ONE_SECOND, MINUTE, reset_after=MINUTE, max_attempts=None)

    assert decide(strategy, [after(0), after(1), after(200)]) == RestartAfter(ONE_SECOND)


@pytest.mark.parametrize(
    ("strategy", "failures", "gives_up"),
    [
        (NoRestart(), 1, True),
        (FixedDelay(attempts=2, delay=ONE_SECOND), 2, False),
        (FixedDelay(attempts=2, delay=ONE_SECOND), 3, True),
        (FailureRate(max_failures=2, interval=MINUTE, delay=ONE_SECOND), 2, False),
        (FailureRate(max_failures=2, interval=MINUTE, delay=ONE_SECOND), 3, True),
        (FailureRate(max_failures=2, interval=ONE_SECOND, delay=ONE_SECOND), 30, False),
        (ExponentialDelay(ONE_SECOND, MINUTE, MINUTE, max_attempts=2), 2, False),
        (ExponentialDelay(ONE_SECOND, MINUTE, MINUTE, max_attempts=2), 3, True),
    ],
)
def test_each_strategy_gives_up_where_it_says(
    strategy: RestartStrategy, failures: int, gives_up: bool
) -> None:
    decision = decide(strategy, [after(n) for n in range(failures)])

    assert isinstance(decision, GiveUp) == gives_up


SECONDS = st.integers(1, 90).map(lambda seconds: timedelta(seconds=seconds))
STRATEGIES = st.one_of(
    st.just(NoRestart()),
    st.builds(FixedDelay, attempts=st.integers(0, 150), delay=SECONDS),
    st.builds(FailureRate, max_failures=st.integers(1, 150), interval=SECONDS, delay=SECONDS),
    st.builds(
        ExponentialDelay,
        initial_delay=SECONDS,
        max_delay=st.just(timedelta(days=400_000)),
        reset_after=SECONDS,
        max_attempts=st.one_of(st.none(), st.integers(1, 150)),
    ),
)


@given(
    strategy=STRATEGIES,
    gaps=st.lists(st.floats(0, 100) | st.floats(0, 0.2), min_size=1, max_size=6),
    failures=st.integers(1, 200),
)
def test_what_is_forgotten_changes_no_decision(
    strategy: RestartStrategy, gaps: list[float], failures: int
) -> None:
    # Given all failures of a job, and what the job remembers of them, one after the other
    every = [after(seconds) for seconds in accumulate(islice(cycle(gaps), failures))]
    kept: list[datetime] = []
    for number, at in enumerate(every, start=1):
        kept = list(remembered(strategy, [*kept, at]))
        # Then the decision is that of somebody who remembers everything
        expected = decide(strategy, every[:number])
        assert decide(strategy, kept, forgotten=number - len(kept)) == expected
        if isinstance(expected, GiveUp):
            break
    assert len(kept) <= 151
