from datetime import timedelta

import pytest

from jobmanager.core.graph.job_graph import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    RestartStrategy,
)
from jobmanager.core.life.restart import GiveUp, RestartAfter, decide
from tests.support.builders import ONE_SECOND, after

MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("failures", "delay"), [(1, 1), (2, 2), (3, 4), (4, 8), (7, 60), (5000, 60)]
)
def test_exponential_delay_doubles_up_to_its_maximum(failures: int, delay: int) -> None:
    strategy = ExponentialDelay(ONE_SECOND, MINUTE, timedelta(hours=1), None)

    decision = decide(strategy, [after(n) for n in range(failures)])

    assert decision == RestartAfter(timedelta(seconds=delay))


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
