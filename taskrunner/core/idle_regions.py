"""Which regions have no first batch to wait for, because they have waited for input for a while.

A source that has begun a moment ago may have rows in the next moment: a generator has some each
second. So a region counts as idle only when it has waited for some time without a break.
"""

from jobmanager.core.ids import RegionId

IDLE_SECONDS = 2.0


class IdleRegions:
    """Remembers since when each region has waited."""

    def __init__(self) -> None:
        self._since: dict[RegionId, float] = {}

    def see(self, region: RegionId, now: float, *, waits: bool) -> bool:
        """Note whether the region waits for input now. Returns whether it is idle."""
        if not waits:
            self._since.pop(region, None)
            return False
        return now - self._since.setdefault(region, now) >= IDLE_SECONDS
