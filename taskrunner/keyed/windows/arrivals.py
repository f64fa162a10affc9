"""The rows of a call as plain columns, grouped by key."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from taskrunner.keyed.windows.spec import SentColumn

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Arrivals:
    columns: list[list[Any]]
    """Plain Python values, None for null. Rows of a key are adjacent, in order of arrival."""
    slices: list[tuple[Key, int, int]]
    """Each key, and the range of its rows."""


def arrivals_of(
    rows: pd.DataFrame, key: Sequence[SentColumn], columns: Sequence[SentColumn]
) -> Arrivals:
    keys = _keys(rows, key)
    numbers: dict[Key, int] = {}
    codes = np.fromiter((numbers.setdefault(one, len(numbers)) for one in keys), np.int64)
    order = codes.argsort(kind="stable") if len(numbers) > 1 else None
    ends = np.bincount(codes).cumsum().tolist()
    begins = [0, *ends[:-1]]
    return Arrivals(
        columns=[_plain(rows, one, order) for one in columns],
        slices=list(zip(numbers, begins, ends, strict=True)),
    )


def _keys(rows: pd.DataFrame, key: Sequence[SentColumn]) -> Iterator[Key] | list[Key]:
    if not key:
        return [()] * len(rows)
    return zip(*(_plain_key(rows, one) for one in key), strict=True)


def _plain_key(rows: pd.DataFrame, column: SentColumn) -> list[Any]:
    values = _plain(rows, column, None)
    if rows[column.name].dtype.kind == "f":
        return [_NAN if value != value else value for value in values]  # all equal, as in Spark
    return values


_NAN = float("nan")


def _plain(rows: pd.DataFrame, column: SentColumn, order: Any) -> list[Any]:
    sent = rows[column.name].to_numpy()
    if order is not None:
        sent = sent[order]
    values: list[Any] = sent.tolist()
    if column.is_nested:
        return [plain_value(value) for value in values]
    if column.null_bit is not None:
        name, bit = column.null_bit
        bits = rows[name].to_numpy()
        if bits.any():
            nulls = (bits if order is None else bits[order]) >> bit & 1
            for at in nulls.nonzero()[0].tolist():
                values[at] = None
    return values


def plain_value(value: Any) -> Any:
    """Converts a value to plain Python: Spark passes arrays as numpy arrays, and times inside of
    structs as pandas timestamps.
    """
    if isinstance(value, np.ndarray | list):
        return [plain_value(one) for one in value]
    if isinstance(value, dict):
        return {key: plain_value(one) for key, one in value.items()}
    if isinstance(value, tuple):  # an entry of a map
        return tuple(plain_value(one) for one in value)
    if isinstance(value, pd.Timestamp):
        return value.to_pydatetime(warn=False)
    if isinstance(value, np.generic):
        return value.item()
    return value
