"""What a window operator is told: the vertex, in positions of columns and in microseconds."""

from dataclasses import dataclass
from typing import Any

from taskrunner.keyed.windows.aggregators import AggregatorSpec

SIDE = "__headgate_side"
"""Null in a result; the name of the side in a row of a side output."""
LATE = "late"


@dataclass(frozen=True, slots=True)
class SentColumn:
    """A column as it comes from Spark."""

    name: str
    null_bit: tuple[str, int] | None
    """Which bit of which column says that it is null; None: nulls come as None."""
    is_nested: bool = False
    """Its values have to be made plain."""


@dataclass(frozen=True, slots=True)
class Tumbling:
    """Also sliding windows: then `every` is shorter than `size`."""

    size_us: int
    every_us: int


@dataclass(frozen=True, slots=True)
class Session:
    gap_us: int


@dataclass(frozen=True, slots=True)
class Counted:
    """Windows of so many rows, one after the other."""

    count: int


@dataclass(frozen=True, slots=True)
class Endless:
    """One window a key, which never ends."""


Kind = Tumbling | Session | Counted | Endless


@dataclass(frozen=True, slots=True)
class AtEnd:
    """When the watermark passes the end of the window."""


@dataclass(frozen=True, slots=True)
class EveryRows:
    count: int


@dataclass(frozen=True, slots=True)
class EveryInterval:
    """In processing time, at whole multiples."""

    interval_ms: int


@dataclass(frozen=True, slots=True)
class WhenMoved:
    """When a value is further than `threshold` from where it was at the last emission."""

    column: int
    threshold: float


Trigger = AtEnd | EveryRows | EveryInterval | WhenMoved


@dataclass(frozen=True, slots=True)
class KeepRows:
    count: int


@dataclass(frozen=True, slots=True)
class KeepTime:
    column: int
    within_us: int


@dataclass(frozen=True, slots=True)
class KeepNear:
    """What is nearer than `threshold` to the last row."""

    column: int
    threshold: float


Evictor = KeepRows | KeepTime | KeepNear


@dataclass(frozen=True, slots=True)
class Function:
    """A user's function, in place of aggregate functions."""

    vertex: str
    reference: str
    columns: tuple[int, ...]
    """The rows' columns, which it gets under `names`."""
    names: tuple[str, ...]
    times: frozenset[str]
    """Those that are times, and come as microseconds."""
    dates: frozenset[str]
    key: tuple[str, ...]
    output: tuple[str, ...]
    output_times: frozenset[str]
    output_dates: frozenset[str]


@dataclass(frozen=True, slots=True)
class WindowSpec:
    key: tuple[SentColumn, ...]
    columns: tuple[SentColumn, ...]
    """What the positions in all the rest speak of."""
    buffered: int
    """So many of the first columns are kept, where rows are."""
    time: int | None
    """The event time, in microseconds."""
    kind: Kind
    trigger: Trigger
    evictor: Evictor | None
    lateness_us: int
    folds: tuple[AggregatorSpec, ...]
    function: Function | None
    late_columns: tuple[int, ...] | None
    """The rows' columns for the late side; None: late rows are dropped."""
    output: tuple[str, ...]
    """The columns of the operator's output, in order: key, window or pane, results; or those of
    the function. Then the side, and the columns of late rows."""

    @property
    def keeps_rows(self) -> bool:
        return self.evictor is not None or self.function is not None


State = dict[Any, Any]
