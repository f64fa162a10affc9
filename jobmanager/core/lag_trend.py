"""Whether a job catches up with its input, and when it will have: from its samples.

A straight line through the last minutes says how fast the lag changes. A source that counts what it
has not read (Kafka) gives the better answer: rows that are left, divided by how fast they get
fewer. For other sources the lag of the watermark has to do, down to the delay that the watermark
always has.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

_LEAST_POINTS = 6
_STEADY_MS_PER_SECOND = 20.0
"""A lag that changes by less than 2 % of the time that passes is steady."""
_STEADY_SHARE = 0.05
"""Rows that change by less than this share of what is left, in the time looked at, are steady."""


class Trend(StrEnum):
    GROWING = "growing"
    SHRINKING = "shrinking"
    STEADY = "steady"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class LagPoint:
    """What was left to do at one time, in the region that was furthest behind."""

    at: datetime
    lag_ms: int | None
    backlog_rows: int | None


@dataclass(frozen=True, slots=True)
class LagTrend:
    lag_ms: int | None = None
    lag_ms_per_second: float | None = None
    """By how much the lag changes; negative: it shrinks."""
    backlog_rows: int | None = None
    backlog_rows_per_second: float | None = None
    trend: Trend = Trend.UNKNOWN
    caught_up_in_ms: int | None = None
    """None: it does not shrink, or is not known to. 0: the job has caught up."""


def lag_trend(points: Sequence[LagPoint], normal_ms: int) -> LagTrend:
    """Return the trend of points in ascending order; `normal_ms` is the lag of a job that has
    caught up: the largest delay of its watermarks.
    """
    lags = [(one.at, one.lag_ms) for one in points if one.lag_ms is not None]
    rows = [(one.at, one.backlog_rows) for one in points if one.backlog_rows is not None]
    lag_slope, row_slope = _slope(lags), _slope(rows)
    lag, backlog = (lags[-1][1] if lags else None), (rows[-1][1] if rows else None)
    if backlog is not None and row_slope is not None:
        trend = _trend_of_rows(backlog, row_slope, rows)
        left = _time_left(backlog, row_slope, trend)
    elif lag is not None and lag_slope is not None:
        trend = _trend_of_lag(lag_slope)
        behind = max(0, lag - normal_ms)
        left = 0 if trend is Trend.STEADY and behind == 0 else _time_left(behind, lag_slope, trend)
    else:
        trend, left = Trend.UNKNOWN, None
    return LagTrend(lag, lag_slope, backlog, row_slope, trend, left)


def _trend_of_lag(per_second: float) -> Trend:
    if abs(per_second) < _STEADY_MS_PER_SECOND:
        return Trend.STEADY
    return Trend.GROWING if per_second > 0 else Trend.SHRINKING


def _trend_of_rows(
    backlog: int, per_second: float, points: Sequence[tuple[datetime, int]]
) -> Trend:
    seconds = (points[-1][0] - points[0][0]).total_seconds()
    largest = max(backlog, *(rows for _, rows in points))
    if abs(per_second) * seconds <= _STEADY_SHARE * largest:
        return Trend.STEADY
    return Trend.GROWING if per_second > 0 else Trend.SHRINKING


def _time_left(left: int, per_second: float, trend: Trend) -> int | None:
    if left == 0:
        return 0
    return int(1000 * left / -per_second) if trend is Trend.SHRINKING else None


def _slope(points: Sequence[tuple[datetime, int]]) -> float | None:
    """Return the slope a second of the line with the least squares; None: too few points."""
    if len(points) < _LEAST_POINTS:
        return None
    times = [(at - points[0][0]).total_seconds() for at, _ in points]
    middle = sum(times) / len(times)
    mean = sum(value for _, value in points) / len(points)
    spread = sum((time - middle) ** 2 for time in times)
    if spread == 0:
        return None
    pairs = zip(times, points, strict=True)
    return sum((time - middle) * (value - mean) for time, (_, value) in pairs) / spread
