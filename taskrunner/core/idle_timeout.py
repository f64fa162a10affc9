"""How long a runner that was kept waits for its next attempt."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(slots=True)
class IdleTimeout:
    """A JobManager that can be reached sends the next attempt soon, or has forgotten the runner.
    One that cannot be reached may come back, and is given longer.
    """

    begun_at: float
    """Times are seconds of one clock."""
    while_reachable: timedelta
    at_most: timedelta
    _reachable_since: float | None = None

    def is_over(self, now: float, is_reachable: bool) -> bool:
        if not is_reachable:
            self._reachable_since = None
        elif self._reachable_since is None:
            self._reachable_since = now
        if now - self.begun_at > self.at_most.total_seconds():
            return True
        since = self._reachable_since
        return since is not None and now - since > self.while_reachable.total_seconds()
