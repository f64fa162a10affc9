"""Aggregate functions against Python's own, however the rows are cut into slices."""

import math
import statistics
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskrunner.keyed.windows.aggregators import AggregatorSpec, aggregator_of

Values = list[int | None]
VALUES = st.lists(st.one_of(st.none(), st.integers(-5, 5)), max_size=12)


def present(values: Values) -> list[int]:
    return [value for value in values if value is not None]


def or_none(compute: Callable[[list[int]], Any], least: int = 1) -> Callable[[Values], Any]:
    return lambda values: compute(present(values)) if len(present(values)) >= least else None


EXPECTED: dict[str, Callable[[Values], Any]] = {
    "count": lambda values: len(present(values)),
    "sum": or_none(sum),
    "avg": or_none(lambda v: sum(v) / len(v)),
    "min": or_none(min),
    "max": or_none(max),
    "first": lambda values: values[0] if values else None,
    "last": lambda values: values[-1] if values else None,
    "collect_list": present,
    "collect_set": lambda values: list(dict.fromkeys(present(values))),
    "median": or_none(statistics.median),
    "stddev_samp": or_none(statistics.stdev, 2),
    "stddev_pop": or_none(statistics.pstdev),
    "var_samp": or_none(statistics.variance, 2),
    "var_pop": or_none(statistics.pvariance),
}


def result_of(spec: AggregatorSpec, columns: Sequence[list[Any]], cuts: Sequence[int]) -> Any:
    """Slice by slice, and the first slices merged with the last ones."""
    fold = aggregator_of(spec)
    rows = len(columns[0])
    places = sorted({0, rows, *(min(cut, rows) for cut in cuts)})
    slices = list(pairwise(places))
    kept = []
    for part in (slices[: len(slices) // 2], slices[len(slices) // 2 :]):
        one = fold.start
        for begin, end in part:
            one = fold.add(one, columns, begin, end)
        kept.append(one)
    return fold.result(fold.merge(*kept))


@pytest.mark.parametrize("function", EXPECTED)
@given(values=VALUES, cuts=st.lists(st.integers(0, 12), max_size=4))
def test_slices_do_not_matter(function: str, values: Values, cuts: list[int]) -> None:
    found = result_of(AggregatorSpec(function, (0,)), [values], cuts)

    assert found == pytest.approx(EXPECTED[function](values))


@given(
    rows=st.lists(st.tuples(st.integers(0, 99), st.one_of(st.none(), st.integers(0, 3)))),
    cuts=st.lists(st.integers(0, 12), max_size=4),
)
def test_of_equal_rows_min_by_and_max_by_take_the_last(
    rows: list[tuple[int, int | None]], cuts: list[int]
) -> None:
    columns: list[list[Any]] = [[value for value, _ in rows], [by for _, by in rows]]
    ranked = [(by, value) for value, by in rows if by is not None]

    for function, extreme in (("min_by", min), ("max_by", max)):
        best = extreme((by for by, _ in ranked), default=None)
        expected: list[Any] = [value for by, value in ranked if by == best][-1:] or [None]
        assert result_of(AggregatorSpec(function, (0, 1)), columns, cuts) == expected[0]


@given(values=VALUES, cuts=st.lists(st.integers(0, 12), max_size=4))
def test_distinct_and_filtered(values: Values, cuts: list[int]) -> None:
    evens = [None if value is None else value % 2 == 0 for value in values]
    distinct = AggregatorSpec("sum", (0,), is_distinct=True)
    filtered = AggregatorSpec("sum", (0,), where=1)
    counted = AggregatorSpec("count", (), where=1)

    kept = [value for value in present(values) if value % 2 == 0]
    assert result_of(distinct, [values, evens], cuts) == or_none(lambda v: sum(set(v)))(values)
    assert result_of(filtered, [values, evens], cuts) == (sum(kept) if kept else None)
    assert result_of(counted, [values, evens], cuts) == len(kept)


def test_nan_is_above_all_numbers_and_equal_to_itself() -> None:
    values = [1.0, math.nan, 2.0, float("nan")]

    assert math.isnan(result_of(AggregatorSpec("max", (0,), is_float=True), [values], []))
    assert result_of(AggregatorSpec("min", (0,), is_float=True), [values], []) == 1.0
    assert result_of(AggregatorSpec("count", (0,), is_distinct=True), [values], []) == 3


def test_decimals_are_exact_and_rounded_half_up() -> None:
    values = [Decimal("0.1"), Decimal("0.2"), None, Decimal("0.25")]

    assert result_of(AggregatorSpec("sum", (0,), scale=2), [values], [2]) == Decimal("0.55")
    average = AggregatorSpec("avg", (0,), scale=2)
    assert result_of(average, [[Decimal("0.01"), Decimal("0.02")]], []) == Decimal("0.02")


def test_a_sum_that_is_no_bigint_is_an_error() -> None:
    with pytest.raises(OverflowError, match="is no BIGINT"):
        result_of(AggregatorSpec("sum", (0,), is_integral=True), [[2**62, 2**62]], [])


def test_a_result_does_not_change_when_more_rows_come() -> None:
    fold = aggregator_of(AggregatorSpec("collect_list", (0,)))
    kept = fold.add(fold.start, [[1, 2, 3]], 0, 2)
    before = fold.result(kept)

    fold.add(kept, [[1, 2, 3]], 2, 3)

    assert before == [1, 2]
