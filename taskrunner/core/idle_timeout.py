"""How long a kept runner waits for its next attempt."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(slots=True)
class IdleTimeout:
    """The time limit of a kept runner. A reachable JobManager sends the next attempt soon, or
    never; while none is reachable, the runner waits longer, because a JobManager may come back.
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
