"""Whether a query moves: judged by what Spark says of it from time to time.

A query that has nothing to do is not stuck, however long that lasts. One that has
something to do moves when it commits a batch, or at least reports.
"""

from dataclasses import dataclass

_WAITS = "Waiting for"
"""How Spark's words for "nothing to do" begin: for data, or for its next trigger."""
_CLEANS_UP = "No new data but cleaning up state"


@dataclass(frozen=True, slots=True)
class QueryObservation:
    """What is seen of a query at one moment."""

    committed: int | None
    """Its last batch."""
    reported: str
    """The time of its last report, in Spark's words. An idle query reports now and then."""
    message: str
    """What it says it is doing."""
    has_data: bool

    @property
    def is_idle(self) -> bool:
        return not self.has_data and self.message.startswith(_WAITS)

    @property
    def runs_batch(self) -> bool:
        return self.has_data or self.message == _CLEANS_UP


class StallDetector:
    """Remembers when a query was last seen to move, or to have nothing to do."""

    def __init__(self, now: float) -> None:
        self._moved_at = now
        self._before: QueryObservation | None = None

    def see(self, sight: QueryObservation, now: float) -> float:
        """For how many seconds nothing has moved though there was something to do."""
        before, self._before = self._before, sight
        if (
            before is None
            or sight.is_idle
            or (sight.committed, sight.reported) != (before.committed, before.reported)
        ):
            self._moved_at = now
        return now - self._moved_at
