"""Restart strategies: whether and when a failed job is restarted, from its failures."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import assert_never

from jobmanager.core.graph.job_graph import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    RestartStrategy,
)


@dataclass(frozen=True, slots=True)
class RestartAfter:
    delay: timedelta


@dataclass(frozen=True, slots=True)
class GiveUp:
    reason: str


_MOST_DOUBLINGS = 40
_KEPT_FAILURES = 50
"""How many failures a job remembers with their times, at least. An upgrade of the job may
bring a strategy that looks further back than the strategy before.
"""


def decide(
    strategy: RestartStrategy, failed_at: Sequence[datetime], forgotten: int = 0
) -> RestartAfter | GiveUp:
    """Decide what follows the last failure in `failed_at`, which ascends and is not empty.
    `forgotten` is the number of failures before those.
    """
    match strategy:
        case NoRestart():
            return GiveUp("restart strategy 'none'")
        case FixedDelay():
            if forgotten + len(failed_at) > strategy.attempts:
                return GiveUp(f"failed again after {strategy.attempts} restarts")
            return RestartAfter(strategy.delay)
        case FailureRate():
            recent = [at for at in failed_at if at > failed_at[-1] - strategy.interval]
            if len(recent) > strategy.max_failures:
                return GiveUp(f"{len(recent)} failures within {strategy.interval}")
            return RestartAfter(strategy.delay)
        case ExponentialDelay():
            in_a_row = _in_a_row(failed_at, strategy.reset_after)
            if strategy.max_attempts is not None and in_a_row > strategy.max_attempts:
                return GiveUp(f"failed again after {strategy.max_attempts} restarts in a row")
            return RestartAfter(_doubled(strategy, min(in_a_row - 1, _MOST_DOUBLINGS)))
        case _:
            assert_never(strategy)


def _doubled(strategy: ExponentialDelay, times: int) -> timedelta:
    factor = 1 << times
    # Compared by division: the product can be longer than a timedelta holds.
    if strategy.initial_delay > strategy.max_delay // factor:
        return strategy.max_delay
    return strategy.initial_delay * factor


def remembered(strategy: RestartStrategy, failed_at: Sequence[datetime]) -> Sequence[datetime]:
    """Return the last failures of `failed_at`: enough of them for every later decision."""
    return failed_at[-max(_KEPT_FAILURES, _needed(strategy)) :]


def _needed(strategy: RestartStrategy) -> int:
    match strategy:
        case NoRestart() | FixedDelay():
            return 1
        case FailureRate():
            return strategy.max_failures + 1
        case ExponentialDelay():
            return max(_MOST_DOUBLINGS, strategy.max_attempts or 0) + 1
        case _:
            assert_never(strategy)


def _in_a_row(failed_at: Sequence[datetime], reset_after: timedelta) -> int:
    """Return the failures since the job last ran for `reset_after` without a failure."""
    count = 1
    for earlier, later in reversed(list(pairwise(failed_at))):
        if later - earlier >= reset_after:
            break
        count += 1
    return count
