"""How much the next batch may take, from what the last batch took."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskrunner.core.batch_limit import BatchLimit, LimitUnit

TARGET = timedelta(seconds=20)
UNITS = pytest.mark.parametrize("unit", list(LimitUnit))
SECONDS = st.floats(0.001, 100_000)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


@UNITS
def test_a_batch_that_took_too_long_makes_the_next_smaller_in_proportion(unit: LimitUnit) -> None:
    first = BatchLimit.first(unit)

    assert first.after(first.most, seconds(40), TARGET).most == first.most // 2
    assert first.after(first.most // 4, seconds(40), TARGET).most == first.most // 8


@UNITS
def test_a_full_batch_that_was_short_makes_the_next_larger_in_proportion(unit: LimitUnit) -> None:
    first = BatchLimit.first(unit)

    assert first.after(first.most, seconds(10), TARGET).most == 2 * first.most


@UNITS
def test_one_batch_changes_the_limit_by_a_factor_of_four_at_most(unit: LimitUnit) -> None:
    first = BatchLimit.first(unit)

    assert first.after(first.most, seconds(3600), TARGET).most == first.most // 4
    assert first.after(first.most, seconds(0.1), TARGET).most == 4 * first.most


@UNITS
@pytest.mark.parametrize("took", [0.3, 10, 17, 24])
def test_a_batch_that_took_all_input_in_time_says_nothing_about_larger_batches(
    unit: LimitUnit, took: float
) -> None:
    first = BatchLimit.first(unit)

    assert first.after(first.most // 100, seconds(took), TARGET) == first


@UNITS
def test_a_batch_near_the_target_is_left_alone(unit: LimitUnit) -> None:
    first = BatchLimit.first(unit)

    assert first.after(first.most, seconds(18), TARGET) == first
    assert first.after(first.most, seconds(23), TARGET) == first


def test_an_empty_batch_and_a_clock_that_stood_still_say_nothing() -> None:
    first = BatchLimit.first(LimitUnit.ROWS)

    assert first.after(0, seconds(3600), TARGET) == first
    assert first.after(first.most, timedelta(0), TARGET) == first


def test_where_a_source_cannot_tell_only_a_slow_batch_counts() -> None:
    first = BatchLimit.first(LimitUnit.ROWS)

    assert first.after(None, seconds(1), TARGET) == first
    assert first.after(None, seconds(40), TARGET).most == first.most // 2


@given(st.sampled_from(LimitUnit), st.lists(st.tuples(st.floats(0, 1), SECONDS), max_size=60))
def test_a_limit_is_always_positive_and_bounded(
    unit: LimitUnit, batches: list[tuple[float, float]]
) -> None:
    limit = BatchLimit.first(unit)
    for share, took in batches:
        limit = limit.after(int(share * limit.most), seconds(took), TARGET)
        assert 1_000 <= limit.most <= 16 * 2**30


@given(
    st.sampled_from(LimitUnit),
    st.floats(100, 1e7),
    st.floats(0, 5),
)
def test_with_a_backlog_batches_come_near_the_target_and_stay_there(
    unit: LimitUnit, speed: float, overhead: float
) -> None:
    """Whatever the speed, as long as the least and the largest batch allow it."""
    limit = BatchLimit.first(unit)
    took = 0.0
    for _ in range(40):
        took = overhead + limit.most / speed
        limit = limit.after(limit.most, seconds(took), TARGET)
    least = overhead + (2**20 if unit is LimitUnit.BYTES else 1_000) / speed
    assert took <= max(1.26 * TARGET.total_seconds(), least)
    most = overhead + (16 * 2**30 if unit is LimitUnit.BYTES else 1_000_000_000) / speed
    assert took >= min(TARGET.total_seconds() / 1.26, most)
