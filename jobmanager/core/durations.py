"""Durations as users write them: `500ms`, `10s`, `5m`, `1h`, `1d`."""

import re
from datetime import timedelta

_UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
_DURATION = re.compile(r"(\d{1,9})(ms|s|m|h|d)")


def parse(text: str) -> timedelta:
    """Parse a duration. Raises ValueError with the accepted forms."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a duration: write 500ms, 10s, 5m, 1h or 1d")
    try:
        return int(match[1]) * _UNITS[match[2]]
    except OverflowError:
        raise ValueError(
            f"{text!r} is longer than the longest duration Headgate can store"
        ) from None


def render(duration: timedelta) -> str:
    """Write `duration` in the largest unit that divides it, as `parse` reads it."""
    for unit in ("d", "h", "m", "s"):
        if duration and duration % _UNITS[unit] == timedelta(0):
            return f"{duration // _UNITS[unit]}{unit}"
    return f"{duration // _UNITS['ms']}ms" if duration else "0s"


def milliseconds(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)
