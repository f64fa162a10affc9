"""The window vertex: its kinds, when it emits (trigger) and what it forgets (evictor).

Tumbling, sliding and session windows with nothing but `aggregate` are Spark's own. All else
is buffered: computed in Python, by key group (`taskrunner/keyed/windows`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from jobmanager.core.graph.clocks import Clock
from jobmanager.core.graph.inputs import Input
from jobmanager.core.ids import VertexId


@dataclass(frozen=True, slots=True)
class TumblingWindow:
    size: timedelta


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    size: timedelta
    every: timedelta


@dataclass(frozen=True, slots=True)
class SessionWindow:
    gap: timedelta


@dataclass(frozen=True, slots=True)
class CountWindow:
    count: int
    every: int | None = None
    """None: the next window begins where this one ends."""


@dataclass(frozen=True, slots=True)
class GlobalWindow:
    """All rows of a key, for ever."""


TimeWindow = TumblingWindow | SlidingWindow | SessionWindow
WindowKind = TimeWindow | CountWindow | GlobalWindow
TIME_WINDOWS = (TumblingWindow, SlidingWindow, SessionWindow)


@dataclass(frozen=True, slots=True)
class EventTimeTrigger:
    """When the watermark passes the end of the window."""


@dataclass(frozen=True, slots=True)
class ProcessingTimeTrigger:
    interval: timedelta


@dataclass(frozen=True, slots=True)
class CountTrigger:
    count: int


@dataclass(frozen=True, slots=True)
class DeltaTrigger:
    delta: str
    """A Spark SQL expression with a number for each row."""
    threshold: float


Trigger = EventTimeTrigger | ProcessingTimeTrigger | CountTrigger | DeltaTrigger


@dataclass(frozen=True, slots=True)
class CountEvictor:
    count: int


@dataclass(frozen=True, slots=True)
class TimeEvictor:
    within: timedelta


@dataclass(frozen=True, slots=True)
class DeltaEvictor:
    delta: str
    threshold: float


Evictor = CountEvictor | TimeEvictor | DeltaEvictor


@dataclass(frozen=True, slots=True)
class Window:
    id: VertexId
    inputs: tuple[Input, ...]
    key: tuple[str, ...]
    time: str
    """The event-time column; where the user left it out, the source's watermark column.
    Empty: there is none, and none is needed.
    """
    window: WindowKind
    aggregate: Mapping[str, str]
    parallelism: int | None = None
    trigger: Trigger | None = None
    """None: what goes with the kind of window."""
    evictor: Evictor | None = None
    allowed_lateness: timedelta = timedelta(0)
    function: str | None = None
    """In place of `aggregate`: `module:name`."""
    output: str | None = None
    """The columns that `function` gives, as Spark DDL."""
    is_time_implied: bool = False
    """The user left `time` out."""
    has_late_side: bool = False
    """Some vertex takes the rows that came too late."""

    @property
    def window_columns(self) -> tuple[str, ...]:
        """What comes out between the key and the results."""
        is_timed = isinstance(self.window, TIME_WINDOWS)
        return ("window_start", "window_end") if is_timed else ("pane",)

    @property
    def is_buffered(self) -> bool:
        """Computed in Python, by key group."""
        return (
            not isinstance(self.window, TIME_WINDOWS)
            or self.trigger is not None
            or self.evictor is not None
            or self.function is not None
            or self.has_late_side
            or bool(self.allowed_lateness)
        )

    @property
    def needs_time(self) -> bool:
        """It means nothing without the time of its rows."""
        return isinstance(self.window, TIME_WINDOWS) or isinstance(self.evictor, TimeEvictor)

    @property
    def clock(self) -> Clock:
        """What it waits for, to emit or to forget."""
        if isinstance(self.trigger, ProcessingTimeTrigger):
            return Clock.PROCESSING
        return Clock.EVENT if self.waits_for_watermark else Clock.NONE

    @property
    def waits_for_watermark(self) -> bool:
        """It emits, or forgets, when event time goes on."""
        return isinstance(self.window, TIME_WINDOWS) or isinstance(self.trigger, EventTimeTrigger)
