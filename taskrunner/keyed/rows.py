"""Converts data frames to plain Python rows, and back."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC
from functools import lru_cache
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from taskrunner.keyed.errors import UserCodeError
from taskrunner.keyed.group_state import Key

Row = dict[str, Any]


def columns_of(frame: pd.DataFrame, aware: frozenset[str]) -> dict[str, list[Any]]:
    """Each column as Python objects: nulls are None, times in `aware` columns have the zone UTC."""
    return {str(name): values_of(frame[name], str(name) in aware) for name in frame.columns}


def values_of(series: pd.Series, is_aware: bool = False) -> list[Any]:
    kind = series.dtype.kind
    if kind == "M":
        times: list[Any] = series.to_numpy().astype("datetime64[us]").tolist()
        if is_aware:
            return [None if one is None else one.replace(tzinfo=UTC) for one in times]
        return times
    values: list[Any] = series.tolist()
    if kind == "f":
        # Spark's nulls are NaN by now
        return [None if one != one else one for one in values]
    if kind == "O":
        return [one.tolist() if isinstance(one, np.ndarray) else one for one in values]
    return values


def rows_of(columns: Mapping[str, Sequence[Any]]) -> list[Row]:
    return list(map(_row_maker(tuple(columns)), *columns.values())) if columns else []


@lru_cache(maxsize=64)
def _row_maker(names: tuple[str, ...]) -> Callable[..., Row]:
    """A function that makes a dict from the values of a row. It is compiled for the names, because
    a dict display is several times as fast as filling a dict, and it is called for each row.
    """
    parameters = ", ".join(f"c{at}" for at in range(len(names)))
    items = ", ".join(f"{name!r}: c{at}" for at, name in enumerate(names))
    made: Callable[..., Row] = eval(f"lambda {parameters}: {{{items}}}")
    return made


def keys_of(columns: Mapping[str, Sequence[Any]], key: Sequence[str], length: int) -> list[Key]:
    """The key of each row."""
    if not key:
        return [()] * length
    return list(zip(*(columns[name] for name in key), strict=True))


def frame_of(
    rows: Sequence[Mapping[str, Any]], schema: pa.Schema, vertex: str, function: str
) -> pd.DataFrame:
    """The rows as a frame with the columns of `schema`. Raises `UserCodeError` for misfits."""
    if not rows:
        return empty(schema)
    _check_columns(rows, schema, vertex, function)
    found = {}
    for field in schema:
        values = _values(rows, field.name)
        found[field.name] = _column(values, field, vertex, function)
    return pd.DataFrame(found)


def empty(schema: pa.Schema) -> pd.DataFrame:
    return pd.DataFrame({name: pd.Series(dtype=object) for name in schema.names})


def _check_columns(
    rows: Sequence[Mapping[str, Any]], schema: pa.Schema, vertex: str, function: str
) -> None:
    known = frozenset(schema.names)
    if not all(map(known.issuperset, rows)):
        wrong = next(row for row in rows if not known.issuperset(row))
        unknown = ", ".join(repr(name) for name in wrong if name not in known)
        raise UserCodeError.gave(
            vertex,
            function,
            f"a row has a column {unknown}, and output has only {', '.join(schema.names)}",
        )


def _values(rows: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    try:
        return list(map(itemgetter(name), rows))
    except KeyError:
        return [row.get(name) for row in rows]


def _column(values: list[Any], field: pa.Field, vertex: str, function: str) -> pd.Series:
    try:
        found = pa.array(values, type=field.type, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        wrong = _first_wrong(values, field.type)
        raise UserCodeError.gave(
            vertex,
            function,
            f"column {field.name!r} of output is {field.type}, and {wrong!r} is not",
        ) from error
    if pa.types.is_timestamp(field.type):
        found = found.cast(pa.int64())
    return found.to_pandas(integer_object_nulls=True, date_as_object=True)


def _first_wrong(values: Sequence[Any], kind: pa.DataType) -> Any:
    for value in values:
        try:
            pa.array([value], type=kind, from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return value
    return values


Grouped = dict[Key, list[Any]]


def grouped(keys: Sequence[Key], items: Sequence[Any], fail: Callable[[Key], Exception]) -> Grouped:
    """Groups the items by key; items keep their order, keys are in order of first appearance."""
    found: Grouped = {}
    for key, item in zip(keys, items, strict=True):
        try:
            held = found.get(key)
        except TypeError:
            raise fail(key) from None
        if held is None:
            found[key] = [item]
        else:
            held.append(item)
    return found
