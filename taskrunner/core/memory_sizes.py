"""Sizes of memory as Spark's settings have them."""

import re

DEFAULT_HEAP = "1g"
"""Of a driver or an executor for which nothing is set."""
_MEGABYTES = {"": 1.0, "k": 1 / 1024, "m": 1.0, "g": 1024.0, "t": 1024.0 * 1024, "b": 1 / 1024**2}


def megabytes(size: str) -> int:
    """A size as Spark writes memory, such as `2g` or `800m`. A plain number counts megabytes; text
    that is no size is taken for the default heap.
    """
    found = _parsed(size)
    return found if found is not None else _parsed(DEFAULT_HEAP) or 0


def _parsed(size: str) -> int | None:
    found = re.fullmatch(r"\s*(\d+)\s*([bkmgt]?)b?\s*", size.lower())
    return None if found is None else int(int(found[1]) * _MEGABYTES[found[2]])
