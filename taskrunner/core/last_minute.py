"""Rates over the last minute, of totals that only grow."""

from collections import deque
from collections.abc import Mapping
from typing import Generic, TypeVar

SPAN = 60.0
"""Seconds."""
K = TypeVar("K")


class LastMinute(Generic[K]):
    """Remembers totals for a minute. Before a minute has passed, rates are those since the
    beginning.
    """

    def __init__(self, at: float) -> None:
        """`at`: when all totals were 0, in seconds of a monotonic clock."""
        self._seen: deque[tuple[float, Mapping[K, float]]] = deque([(at, {})])

    def rates(self, at: float, totals: Mapping[K, float]) -> dict[K, float]:
        """Return how much each total has grown in a second."""
        while len(self._seen) > 1 and self._seen[1][0] <= at - SPAN:
            self._seen.popleft()
        since, before = self._seen[0]
        elapsed = at - since
        if at > self._seen[-1][0]:
            self._seen.append((at, dict(totals)))
        if elapsed <= 0:
            return dict.fromkeys(totals, 0.0)
        return {
            key: max(0.0, value - before.get(key, 0)) / elapsed for key, value in totals.items()
        }
