"""From which regions no first batch is awaited, because they have been idle for a while.

A source that has begun a moment ago may have rows in the next moment: a generator has some each
second. So a region has to be idle for some time without a break.
"""

from jobmanager.core.ids import RegionId

IDLE_SECONDS = 2.0


class IdleRegions:
    """Remembers since when each region has been idle."""

    def __init__(self) -> None:
        self._since: dict[RegionId, float] = {}

    def see(self, region: RegionId, now: float, *, waits: bool) -> bool:
        """Note whether the region is idle now. Returns whether it has been for long enough."""
        if not waits:
            self._since.pop(region, None)
            return False
        return now - self._since.setdefault(region, now) >= IDLE_SECONDS
