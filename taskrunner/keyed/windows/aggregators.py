"""Aggregate functions over slices of columns, with Spark's results.

An aggregator takes rows slice by slice and keeps intermediate results, as plain values that can
be pickled. Columns are lists of plain Python values, None for null. A result that was returned is
never changed afterwards.
"""

import decimal
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Columns = Sequence[list[Any]]
_LONGEST = 2**63


@dataclass(frozen=True, slots=True)
class AggregatorSpec:
    """One call of an aggregate function, by the positions of its columns."""

    function: str
    columns: tuple[int, ...]
    is_distinct: bool = False
    where: int | None = None
    """The column of the FILTER condition."""
    ignores_nulls: bool = False
    is_float: bool = False
    """The compared column has floating-point numbers: NaN is greater than all others."""
    is_integral: bool = False
    """The result is a BIGINT."""
    scale: int | None = None
    """The scale of a DECIMAL result."""


class Aggregator(Protocol):
    start: Any

    def add(self, kept: Any, columns: Columns, begin: int, end: int) -> Any:
        """The intermediate result after the rows from `begin` to before `end`."""
        ...

    def merge(self, kept: Any, other: Any) -> Any: ...

    def result(self, kept: Any) -> Any: ...


def aggregator_of(spec: AggregatorSpec) -> Aggregator:
    fold = _FOLDS[spec.function](spec)
    if spec.is_distinct:
        fold = _Distinct(spec, fold)
    return fold if spec.where is None else _Filtered(spec, fold)


def _values(columns: Columns, at: int, begin: int, end: int) -> list[Any]:
    """The values that are not null."""
    values = columns[at][begin:end]
    return [value for value in values if value is not None] if None in values else values


class _CountRows:
    start = 0

    def add(self, kept: int, columns: Columns, begin: int, end: int) -> int:
        return kept + end - begin

    def merge(self, kept: int, other: int) -> int:
        return kept + other

    def result(self, kept: int) -> int:
        return kept


class _Count(_CountRows):
    """Counts the rows in which no argument is null."""

    def __init__(self, columns: tuple[int, ...]) -> None:
        self._columns = columns

    def add(self, kept: int, columns: Columns, begin: int, end: int) -> int:
        if len(self._columns) == 1:
            return kept + end - begin - columns[self._columns[0]][begin:end].count(None)
        rows = zip(*(columns[at][begin:end] for at in self._columns), strict=True)
        return kept + sum(1 for row in rows if None not in row)


class _CountIf(_Count):
    def add(self, kept: int, columns: Columns, begin: int, end: int) -> int:
        return kept + columns[self._columns[0]][begin:end].count(True)


class _Sum:
    start = None

    def __init__(self, spec: AggregatorSpec) -> None:
        self._at = spec.columns[0]
        self._is_integral = spec.is_integral

    def add(self, kept: Any, columns: Columns, begin: int, end: int) -> Any:
        values = _values(columns, self._at, begin, end)
        return self.merge(kept, sum(values)) if values else kept

    def merge(self, kept: Any, other: Any) -> Any:
        return other if kept is None else kept if other is None else kept + other

    def result(self, kept: Any) -> Any:
        if self._is_integral and kept is not None and not -_LONGEST <= kept < _LONGEST:
            raise OverflowError(f"sum: {kept} is no BIGINT")
        return kept


class _Average:
    start = (0, 0)

    def __init__(self, spec: AggregatorSpec) -> None:
        self._at = spec.columns[0]
        self._unit = None if spec.scale is None else decimal.Decimal(1).scaleb(-spec.scale)

    def add(self, kept: Any, columns: Columns, begin: int, end: int) -> Any:
        values = _values(columns, self._at, begin, end)
        return (kept[0] + len(values), kept[1] + sum(values)) if values else kept

    def merge(self, kept: Any, other: Any) -> Any:
        return kept[0] + other[0], kept[1] + other[1]

    def result(self, kept: Any) -> Any:
        count, total = kept
        if count == 0:
            return None
        if self._unit is None:
            return total / count
        return (total / count).quantize(self._unit, rounding=decimal.ROUND_HALF_UP)


class _Extreme:
    """The least or greatest value."""

    start = None

    def __init__(self, spec: AggregatorSpec, choose: Callable[..., Any]) -> None:
        self._at = spec.columns[0]
        self._choose = choose
        self._order = _with_nan_last if spec.is_float else None

    def add(self, kept: Any, columns: Columns, begin: int, end: int) -> Any:
        values = _values(columns, self._at, begin, end)
        if not values:
            return kept
        return self.merge(kept, self._choose(values, key=self._order))

    def merge(self, kept: Any, other: Any) -> Any:
        if kept is None or other is None:
            return other if kept is None else kept
        return self._choose((kept, other), key=self._order)

    def result(self, kept: Any) -> Any:
        return kept


class _ValueBy:
    """The value in the row in which another value is least or greatest; the last of equal rows."""

    start = None

    def __init__(self, spec: AggregatorSpec, choose: Callable[..., Any]) -> None:
        self._value, self._by = spec.columns
        self._choose = choose
        self._order = _with_nan_last if spec.is_float else None

    def add(self, kept: Any, columns: Columns, begin: int, end: int) -> Any:
        by = columns[self._by][begin:end]
        present = [at for at, one in enumerate(by) if one is not None]
        if not present:
            return kept
        # min and max choose the first of equal values, so the last rows come first
        at = self._choose(reversed(present), key=lambda one: self._rank(by[one]))
        return self.merge(kept, (columns[self._value][begin + at], by[at]))

    def merge(self, kept: Any, other: Any) -> Any:
        if kept is None or other is None:
            return other if kept is None else kept
        return self._choose((other, kept), key=lambda one: self._rank(one[1]))

    def result(self, kept: Any) -> Any:
        return None if kept is None else kept[0]

    def _rank(self, value: Any) -> Any:
        return value if self._order is None else self._order(value)


class _First:
    start = None

    def __init__(self, spec: AggregatorSpec) -> None:
        self._at = spec.columns[0]
        self._ignores_nulls = spec.ignores_nulls

    def add(self, kept: Any, columns: Columns, begin: int, end: int) -> Any:
        return kept if kept is not None else self._chosen(self._candidates(columns, begin, end))

    def merge(self, kept: Any, other: Any) -> Any:
        return other if kept is None else kept

    def result(self, kept: Any) -> Any:
        return None if kept is None else kept[0]

    def _candidates(self, columns: Columns, begin: int, end: int) -> list[Any]:
        if self._ignores_nulls:
            return _values(columns, self._at, begin, end)
        return columns[self._at][begin:end]

    def _chosen(self, values: list[Any]) -> Any:
        return (values[0],) if values else None


class _Last(_First):
    def add(self, kept: Any, columns: Columns, begin: int, end: int) -> Any:
        return self.merge(kept, self._chosen(self._candidates(columns, begin, end)))

    def merge(self, kept: Any, other: Any) -> Any:
        return kept if other is None else other

    def _chosen(self, values: list[Any]) -> Any:
        return (values[-1],) if values else None


class _List:
    """All values that are not null, in the order of the rows."""

    start = None

    def __init__(self, spec: AggregatorSpec) -> None:
        self._at = spec.columns[0]

    def add(self, kept: Any, columns: Columns, begin: int, end: int) -> Any:
        values = _values(columns, self._at, begin, end)
        if kept is None:
            return list(values)
        kept.extend(values)
        return kept

    def merge(self, kept: Any, other: Any) -> Any:
        return [*(kept or ()), *(other or ())]

    def result(self, kept: Any) -> Any:
        return list(kept or ())  # a copy: more rows may come


class _Set(_List):
    """Each value that is not null once, in order of first appearance."""

    def add(self, kept: Any, columns: Columns, begin: int, end: int) -> Any:
        found = kept if kept is not None else {}
        found.update(_distinct(_values(columns, self._at, begin, end)))
        return found

    def merge(self, kept: Any, other: Any) -> Any:
        return {**(kept or {}), **(other or {})}

    def result(self, kept: Any) -> Any:
        return list(_distinct(kept or ()))


class _Median(_List):
    def result(self, kept: Any) -> Any:
        if not kept:
            return None
        values = sorted(kept, key=_with_nan_last)
        middle = (len(values) - 1) / 2
        low, high = float(values[math.floor(middle)]), float(values[math.ceil(middle)])
        return low if low == high else low + (high - low) * 0.5


class _Moments:
    """Count, mean and sum of squared distances from the mean, merged by Chan's rule."""

    start = (0, 0.0, 0.0)

    def __init__(self, spec: AggregatorSpec) -> None:
        self._at = spec.columns[0]
        self._is_sample = spec.function.endswith("samp")
        self._is_deviation = spec.function.startswith("stddev")

    def add(self, kept: Any, columns: Columns, begin: int, end: int) -> Any:
        values = [float(value) for value in _values(columns, self._at, begin, end)]
        if not values:
            return kept
        mean = sum(values) / len(values)
        return self.merge(kept, (len(values), mean, sum((v - mean) ** 2 for v in values)))

    def merge(self, kept: Any, other: Any) -> Any:
        (count, mean, squares), (more, its_mean, its_squares) = kept, other
        total = count + more
        if total == 0:
            return kept
        distance = its_mean - mean
        squares += its_squares + distance * distance * count * more / total
        return total, mean + distance * more / total, squares

    def result(self, kept: Any) -> Any:
        count, _, squares = kept
        freedom = count - self._is_sample
        if count == 0 or freedom == 0:
            return None
        variance = squares / freedom
        return math.sqrt(variance) if self._is_deviation else variance


class _Distinct:
    """Each value once."""

    start = None

    def __init__(self, spec: AggregatorSpec, fold: Aggregator) -> None:
        self._columns = spec.columns
        self._fold = fold

    def add(self, kept: Any, columns: Columns, begin: int, end: int) -> Any:
        rows = zip(*(columns[at][begin:end] for at in self._columns), strict=True)
        found = kept if kept is not None else {}
        for row in rows:
            found[tuple(map(_same_nan, row))] = None
        return found

    def merge(self, kept: Any, other: Any) -> Any:
        return {**(kept or {}), **(other or {})}

    def result(self, kept: Any) -> Any:
        columns: list[list[Any]] = [[] for _ in range(max(self._columns) + 1)]
        rows = dict.fromkeys(tuple(map(_same_nan, row)) for row in kept or ())
        for row in rows:
            for at, value in zip(self._columns, row, strict=True):
                columns[at].append(value)
        return self._fold.result(self._fold.add(self._fold.start, columns, 0, len(rows)))


class _Filtered:
    """The rows for which a column is true."""

    def __init__(self, spec: AggregatorSpec, fold: Aggregator) -> None:
        assert spec.where is not None
        self._where = spec.where
        self._columns = spec.columns
        self._fold = fold
        self.start = fold.start

    def add(self, kept: Any, columns: Columns, begin: int, end: int) -> Any:
        chosen = [at for at in range(begin, end) if columns[self._where][at]]
        picked: list[list[Any]] = [[] for _ in range(max(self._columns, default=-1) + 1)]
        for at in self._columns:
            picked[at] = [columns[at][row] for row in chosen]
        return self._fold.add(kept, picked, 0, len(chosen)) if chosen else kept

    def merge(self, kept: Any, other: Any) -> Any:
        return self._fold.merge(kept, other)

    def result(self, kept: Any) -> Any:
        return self._fold.result(kept)


_NAN = math.nan


def _same_nan(value: Any) -> Any:
    """Replaces every NaN by the same object, since Spark treats NaNs as equal."""
    return _NAN if value != value else value


def _with_nan_last(value: Any) -> Any:
    return (True, 0.0) if value != value else (False, value)


def _distinct(values: Iterable[Any]) -> dict[Any, None]:
    return dict.fromkeys(map(_same_nan, values))


_FOLDS: Mapping[str, Callable[[AggregatorSpec], Aggregator]] = {
    "count": lambda spec: _Count(spec.columns) if spec.columns else _CountRows(),
    "count_if": lambda spec: _CountIf(spec.columns),
    "sum": _Sum,
    "avg": _Average,
    "min": lambda spec: _Extreme(spec, min),
    "max": lambda spec: _Extreme(spec, max),
    "bool_and": lambda spec: _Extreme(spec, min),
    "bool_or": lambda spec: _Extreme(spec, max),
    "min_by": lambda spec: _ValueBy(spec, min),
    "max_by": lambda spec: _ValueBy(spec, max),
    "first": _First,
    "last": _Last,
    "collect_list": _List,
    "collect_set": _Set,
    "median": _Median,
    "stddev_samp": _Moments,
    "stddev_pop": _Moments,
    "var_samp": _Moments,
    "var_pop": _Moments,
}
