"""How unevenly something is spread over key groups."""

from collections.abc import Sequence


def skew(amounts: Sequence[int], groups: int) -> float | None:
    """Return the largest amount divided by the mean of all groups, including empty groups; None:
    all are empty.

    1.0 means evenly spread; `groups` means that everything is in one group.
    """
    total = sum(amounts)
    return max(amounts) * groups / total if total else None
