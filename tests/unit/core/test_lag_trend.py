from collections.abc import Sequence
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobmanager.core.lag_trend import LagPoint, Trend, lag_trend
from tests.support.builders import NOW

NORMAL = 5_000


def lags(*values: int | None) -> list[LagPoint]:
    """One point every ten seconds."""
    return [LagPoint(NOW + timedelta(seconds=10 * n), lag, None) for n, lag in enumerate(values)]


def backlogs(*values: int | None) -> list[LagPoint]:
    return [
        LagPoint(NOW + timedelta(seconds=10 * n), 60_000, rows) for n, rows in enumerate(values)
    ]


def test_a_lag_that_shrinks_ends_at_the_delay_of_the_watermark() -> None:
    found = lag_trend(lags(*range(125_000, 64_999, -10_000)), NORMAL)

    assert found.trend is Trend.SHRINKING
    assert found.lag_ms_per_second == pytest.approx(-1000)
    assert found.caught_up_in_ms == 60_000


def test_a_lag_that_grows_has_no_end() -> None:
    found = lag_trend(lags(*range(0, 70_000, 10_000)), NORMAL)

    assert (found.trend, found.caught_up_in_ms) == (Trend.GROWING, None)


def test_a_job_that_keeps_up_has_caught_up() -> None:
    found = lag_trend(lags(4_900, 5_000, 4_800, 5_000, 4_900, 4_950, 4_900), NORMAL)

    assert (found.trend, found.caught_up_in_ms) == (Trend.STEADY, 0)


def test_a_steady_lag_above_the_delay_never_ends() -> None:
    found = lag_trend(lags(*[60_000] * 7), NORMAL)

    assert (found.trend, found.caught_up_in_ms) == (Trend.STEADY, None)


def test_rows_that_are_left_are_better_known_than_the_lag() -> None:
    found = lag_trend(backlogs(1000, 900, 800, 700, 600, 500), NORMAL)

    assert found.trend is Trend.SHRINKING
    assert (found.backlog_rows, found.caught_up_in_ms) == (500, 50_000)
    assert found.lag_ms == 60_000


def test_a_backlog_that_hardly_moves_is_steady_and_an_empty_one_is_caught_up() -> None:
    steady = lag_trend(backlogs(10_000, 10_010, 9_990, 10_005, 9_995, 10_001), NORMAL)
    empty = lag_trend(backlogs(0, 0, 0, 0, 0, 0), NORMAL)

    assert (steady.trend, steady.caught_up_in_ms) == (Trend.STEADY, None)
    assert (empty.trend, empty.caught_up_in_ms) == (Trend.STEADY, 0)


@pytest.mark.parametrize("values", [(), (1, 2, 3, 4, 5), (None,) * 9])
def test_too_few_points_tell_nothing(values: Sequence[int | None]) -> None:
    found = lag_trend(lags(*values), NORMAL)

    assert (found.trend, found.caught_up_in_ms) == (Trend.UNKNOWN, None)


@given(st.lists(st.one_of(st.none(), st.integers(0, 10**12)), max_size=40))
def test_an_end_is_named_only_where_something_shrinks_or_nothing_is_left(
    values: list[int | None],
) -> None:
    for points in (lags(*values), backlogs(*values)):
        found = lag_trend(points, NORMAL)
        if found.caught_up_in_ms:
            assert found.trend is Trend.SHRINKING
            assert found.caught_up_in_ms > 0
