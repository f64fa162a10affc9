"""Detects queries that make no progress, from repeated observations.

A query without work is not stalled, however long that lasts. A query with work makes progress
when it commits a batch, or at least sends a progress report.
"""

from dataclasses import dataclass

_WAITS = "Waiting for"
"""Beginnings of Spark's messages for "no work": waiting for data, or for the next trigger."""
_CLEANS_UP = "No new data but cleaning up state"


def waits_for_input(message: str, *, has_data: bool) -> bool:
    """Whether a query has no work, by what Spark says of it."""
    return not has_data and message.startswith(_WAITS)


@dataclass(frozen=True, slots=True)
class QueryObservation:
    """The observation of a query at one moment."""

    committed: int | None
    """The last committed batch."""
    reported: str
    """The timestamp of its last progress report. An idle query reports now and then."""
    message: str
    """Spark's message about what the query is doing."""
    has_data: bool

    @property
    def is_idle(self) -> bool:
        return waits_for_input(self.message, has_data=self.has_data)

    @property
    def runs_batch(self) -> bool:
        return self.has_data or self.message == _CLEANS_UP


class StallDetector:
    """Remembers when a query last made progress, or had no work."""

    def __init__(self, now: float) -> None:
        self._moved_at = now
        self._before: QueryObservation | None = None

    def see(self, sight: QueryObservation, now: float) -> float:
        """The number of seconds for which the query has had work and made no progress."""
        before, self._before = self._before, sight
        if (
            before is None
            or sight.is_idle
            or (sight.committed, sight.reported) != (before.committed, before.reported)
        ):
            self._moved_at = now
        return now - self._moved_at
