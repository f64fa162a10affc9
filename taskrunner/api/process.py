"""Process functions: called for each row, with state and timers of the row's key.

class Reminder(ProcessFunction):
    last = ValueState()

    def process(self, row, ctx):
        self.last.update(row["item"])
        ctx.register_timer(ctx.timestamp_ms + 60_000)

    def on_timer(self, time_ms, ctx):
        ctx.emit({"user": ctx.key, "left_behind": self.last.value()})
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from jobmanager.core.graph.clocks import Clock
from taskrunner.api.state import State

Row = dict[str, Any]
"""Column to value. A TIMESTAMP is an aware `datetime` in UTC, null is None."""
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_MILLISECOND = timedelta(milliseconds=1)


class Context:
    """The key, the times, and the methods of a process function while it works for a key."""

    __slots__ = (
        "_clock",
        "emit",
        "emitted",
        "key",
        "processing_ms",
        "timers",
        "timestamp_ms",
        "watermark_ms",
    )
    emit: Callable[[Mapping[str, Any]], None]
    """Emits a row, in the columns of the vertex's `output`. A missing column is null."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.timers: list[int] = []
        """The key's timers, ascending, in milliseconds. Change them only through the methods."""
        self.key: Any = None
        """The value of the key column; a tuple if there are several, or none."""
        self.timestamp_ms: int | None = None
        """The event time of the row, or the time of the timer. None: the row has none."""
        self.begin_batch(0, 0)

    def begin_batch(self, watermark_ms: int, processing_ms: int) -> None:
        """Begins a batch. Not for users."""
        self.watermark_ms = watermark_ms
        """The watermark before this batch; a very small number if there is none."""
        self.processing_ms = processing_ms
        """The time of this batch. A batch that is run again has the same time."""
        self.emitted: list[Mapping[str, Any]] = []
        self.emit = self.emitted.append  # called for each row, so without an indirection

    def register_timer(self, at: int | datetime) -> None:
        """Registers a timer: `on_timer` is called for this key when its time has come.

        A time is milliseconds since 1970, or a datetime (UTC, if it has no zone). A timer whose
        time has already come fires after the rows of this batch. Registering the same time twice
        makes one timer.
        """
        if self._clock is Clock.NONE:
            raise RuntimeError("this vertex has time: none, so there are no timers")
        time_ms = as_milliseconds(at)
        place = bisect_left(self.timers, time_ms)
        if place == len(self.timers) or self.timers[place] != time_ms:
            insort(self.timers, time_ms)

    def delete_timer(self, at: int | datetime) -> None:
        """Deletes a timer of this key. Does nothing if there is none."""
        time_ms = as_milliseconds(at)
        if time_ms in self.timers:
            self.timers.remove(time_ms)


class ProcessFunction:
    """The code of a `process` vertex. A subclass declares states and implements `process`; the
    other methods are optional.

    Each process that runs the vertex makes one object of the class, without arguments. It serves
    many keys: keep everything that belongs to a key in states, not in other attributes.
    """

    def open(self) -> None:
        """Called once before any row: for connections, models, caches."""

    def process(self, row: Row, ctx: Context) -> None:
        """Called for each row."""
        raise NotImplementedError

    def on_timer(self, time_ms: int, ctx: Context) -> None:
        """Called for each timer when its time has come, the earliest first."""


def states_of(function: type) -> dict[str, State]:
    """The states that a class declares or inherits, by name."""
    found: dict[str, State] = {}
    for one in reversed(function.__mro__):
        found.update({n: state for n, state in vars(one).items() if isinstance(state, State)})
    return found


def as_milliseconds(at: int | datetime) -> int:
    if isinstance(at, datetime):
        aware = at if at.tzinfo is not None else at.replace(tzinfo=_EPOCH.tzinfo)
        return (aware - _EPOCH) // _MILLISECOND
    return int(at)
