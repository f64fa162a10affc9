"""What is read again from time to time while a job runs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta


@dataclass(slots=True)
class _Refresh:
    every: float
    action: Callable[[], None]
    last: float


@dataclass(slots=True)
class Refreshes:
    """The refreshes of one job. The thread that polls the queries runs them, between two batches
    or during one: an action must be quick, such as to drop the rows that Spark keeps.
    """

    _known: list[_Refresh] = field(default_factory=list)

    def add(self, every: timedelta, action: Callable[[], None], now: float) -> None:
        self._known.append(_Refresh(every.total_seconds(), action, now))

    def run_due(self, now: float) -> None:
        for one in self._known:
            if now - one.last >= one.every:
                one.last = now
                one.action()
