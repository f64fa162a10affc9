"""How unevenly something is spread over key groups."""

from collections.abc import Sequence


def skew(amounts: Sequence[int], groups: int) -> float | None:
    """The largest amount by the mean of all groups, empty ones too; None: there is nothing.

    1.0 is even; `groups` is everything in one group.
    """
    total = sum(amounts)
    return max(amounts) * groups / total if total else None
