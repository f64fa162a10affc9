"""Sizes as users write them: `64KB`, `128MB`, `1GB`. A unit is 1024 times the smaller unit."""

import re

_UNITS = {"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_SIZE = re.compile(r"(\d{1,9})\s?(KB|MB|GB|TB)")


def parse(text: str) -> int:
    """Parse a size into bytes. Raises ValueError with the accepted forms."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a size: write 64KB, 128MB or 1GB")
    return int(match[1]) * _UNITS[match[2]]


def render(size: int) -> str:
    """Write `size` in the largest unit that divides it, as `parse` reads it."""
    for unit in ("TB", "GB", "MB"):
        if size and size % _UNITS[unit] == 0:
            return f"{size // _UNITS[unit]}{unit}"
    return f"{size // _UNITS['KB']}KB"
