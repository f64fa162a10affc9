"""Converts times of rows, which travel from and to Spark as whole microseconds since 1970.

Spark itself would pass them in the session's time zone, without naming it, and only up to the year
2262.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NOT_A_TIME = np.datetime64("NaT", "us")


def from_micros(values: pd.Series) -> pd.Series:
    """Microseconds, or nulls, as `datetime64[us]` in UTC without a zone."""
    if values.dtype == np.int64:
        times: NDArray[Any] = values.to_numpy().view("datetime64[us]")
    else:
        listed = [_NOT_A_TIME if _is_null(one) else np.datetime64(int(one), "us") for one in values]
        times = np.array(listed, dtype="datetime64[us]")
    return pd.Series(times, index=values.index, name=values.name)


def to_micros(values: pd.Series) -> pd.Series:
    """Times of any kind, and nulls, as microseconds. A time without a zone is in UTC."""
    if isinstance(values.dtype, pd.DatetimeTZDtype):
        values = values.dt.tz_convert("UTC").dt.tz_localize(None)
    if values.dtype.kind == "M":
        if not values.hasnans:
            micros = values.to_numpy().astype("datetime64[us]").view(np.int64)
            return pd.Series(micros, index=values.index, name=values.name)
        values = values.astype(object)
    listed = [None if _is_null(one) else micros_of(one) for one in values]
    return pd.Series(listed, index=values.index, name=values.name, dtype=object)


def milliseconds_of(values: pd.Series) -> list[int | None]:
    """A time column as whole milliseconds; None: null."""
    floored = values.to_numpy().astype("datetime64[ms]")
    numbers: list[int | None] = floored.view(np.int64).tolist()
    if values.hasnans:
        return [None if missing else n for n, missing in zip(numbers, values.isna(), strict=True)]
    return numbers


def micros_of(time: Any) -> int:
    """One time: a datetime, a pandas Timestamp, or microseconds already."""
    if isinstance(time, datetime):
        aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
        return (aware - _EPOCH) // _MICROSECOND
    if isinstance(time, np.datetime64):
        return int(time.astype("datetime64[us]").view(np.int64))
    return int(time)


def _is_null(one: Any) -> bool:
    return one is None or one is pd.NaT or one != one
