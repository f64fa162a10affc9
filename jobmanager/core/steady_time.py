"""Time that advances evenly, whatever happens to the clocks of machines.

A wall clock can be stepped by hours, on the JobManager's machine and on the database's. Deadlines,
timers and silences must not notice. So a JobManager reads the database's clock once and counts on
from there with a monotonic clock. Later readings of the database's clock correct it slowly, as
`ntpd` does: the result runs at most a tenth faster or slower than the monotonic clock, and never
goes back.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

MOST_CORRECTION = 0.1
"""The part of the time that passed by which a correction may change it."""


@dataclass(frozen=True, slots=True)
class SteadyTime:
    instant: datetime
    seconds: float
    """The monotonic clock at that instant."""

    def at(self, seconds: float) -> datetime:
        return self.instant + timedelta(seconds=seconds - self.seconds)


def corrected(known: SteadyTime, read: datetime, seconds: float) -> SteadyTime:
    """The time after the database's clock showed `read` at `seconds` of the monotonic clock."""
    mine = known.at(seconds)
    most = timedelta(seconds=MOST_CORRECTION * max(0.0, seconds - known.seconds))
    return SteadyTime(mine + min(max(read - mine, -most), most), max(seconds, known.seconds))
