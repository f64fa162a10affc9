"""Intervals as in Spark's triggers and window functions: `10 seconds`, `1 minute`."""

import re
from datetime import timedelta

_UNITS = {
    "millisecond": timedelta(milliseconds=1),
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
}
_PART = re.compile(r"(\d+)\s*([a-z]+)")


class NotAnInterval(ValueError):
    """The text is not an interval of a fixed length."""


def interval_of(text: str) -> timedelta:
    """Parse an interval. Raises `NotAnInterval`."""
    plain = text.strip().lower().removeprefix("interval").strip()
    total, rest = timedelta(), _PART.sub("", plain).strip()
    parts = _PART.findall(plain)
    for number, unit in parts:
        if unit.removesuffix("s") not in _UNITS:
            raise NotAnInterval(f"{text!r} is not an interval such as '10 seconds'")
        total += int(number) * _UNITS[unit.removesuffix("s")]
    if rest or not parts:
        raise NotAnInterval(f"{text!r} is not an interval such as '10 seconds'")
    return total
