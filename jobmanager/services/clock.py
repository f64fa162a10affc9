"""The one place that looks at the clock."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

from jobmanager.core.steady_time import SteadyTime, corrected

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The wall clock of this machine: to show, never to compare."""
    return datetime.now(UTC)


def boot_seconds() -> float:
    """A monotonic clock that also counts while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class SteadyClock:
    """The database's time, continued by a monotonic clock: steps of wall clocks do not change it.
    It never goes back, or else what was written a moment ago, to be done at once, would not be due.

    Before the database's time was heard, it is the wall clock's.
    """

    def __init__(
        self, seconds: Callable[[], float] = boot_seconds, wall_clock: Clock = utc_now
    ) -> None:
        self._seconds = seconds
        self._wall_clock = wall_clock
        self._time: SteadyTime | None = None
        self._latest: datetime | None = None
        """The latest that was asked for."""

    def __call__(self) -> datetime:
        if self._time is None:
            return self._wall_clock()
        now = self._time.at(self._seconds())
        self._latest = now if self._latest is None else max(now, self._latest)
        return self._latest

    def hear(self, read: datetime, seconds: float) -> None:
        """The database's clock showed `read` at `seconds` of the monotonic clock."""
        known = self._time
        self._time = corrected(known, read, seconds) if known else SteadyTime(read, seconds)

    def catch_up(self, read: datetime, seconds: float) -> None:
        """As `hear`, but at once where the database's time is later: another leader may have
        written instants by a time that this clock has not followed yet. Only while nothing is
        measured by this clock: before a leadership begins.
        """
        mine = self._time.at(seconds) if self._time else read
        self._time = SteadyTime(max(mine, read), seconds)
