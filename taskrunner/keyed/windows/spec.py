"""The specification of a window operator: the vertex, with column positions and microseconds."""

from dataclasses import dataclass
from typing import Any

from taskrunner.keyed.windows.aggregators import AggregatorSpec

SIDE = "__headgate_side"
"""A column that is null in a result, and the name of the side in a row of a side output."""
SIDE_ROW = "__headgate_row"
"""The column that holds the rows of sides, as structs."""
LATE = "late"


@dataclass(frozen=True, slots=True)
class SentColumn:
    """A column as it comes from Spark."""

    name: str
    null_bit: tuple[str, int] | None
    """The column and bit that mark a null; None: nulls arrive as None."""
    is_nested: bool = False
    """Its values have to be converted to plain Python."""


@dataclass(frozen=True, slots=True)
class Tumbling:
    """Tumbling windows; with `every` shorter than `size`, sliding windows."""

    size_us: int
    every_us: int


@dataclass(frozen=True, slots=True)
class Session:
    gap_us: int


@dataclass(frozen=True, slots=True)
class Counted:
    """Windows of a fixed number of rows, one after the other."""

    count: int


@dataclass(frozen=True, slots=True)
class Endless:
    """One window for each key, which never ends."""


Kind = Tumbling | Session | Counted | Endless


@dataclass(frozen=True, slots=True)
class AtEnd:
    """Emits when the watermark passes the end of the window."""


@dataclass(frozen=True, slots=True)
class EveryRows:
    count: int


@dataclass(frozen=True, slots=True)
class EveryInterval:
    """Emits in processing time, at whole multiples of the interval."""

    interval_ms: int


@dataclass(frozen=True, slots=True)
class WhenMoved:
    """Emits when a value differs by more than `threshold` from its value at the last emission."""

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
    """Keeps rows whose value is less than `threshold` away from that of the last row."""

    column: int
    threshold: float


Evictor = KeepRows | KeepTime | KeepNear


@dataclass(frozen=True, slots=True)
class Function:
    """A user's function, instead of aggregate functions."""

    vertex: str
    reference: str
    columns: tuple[int, ...]
    """The columns of the rows, which the function gets under `names`."""
    names: tuple[str, ...]
    times: frozenset[str]
    """The columns that are times, and arrive as microseconds."""
    dates: frozenset[str]
    key: tuple[str, ...]
    output: tuple[str, ...]
    output_times: frozenset[str]
    output_dates: frozenset[str]


@dataclass(frozen=True, slots=True)
class WindowSpec:
    key: tuple[SentColumn, ...]
    columns: tuple[SentColumn, ...]
    """The columns to which all positions below refer."""
    buffered: int
    """How many of the first columns are stored, if rows are stored."""
    time: int | None
    """The column of the event time, in microseconds."""
    kind: Kind
    trigger: Trigger
    evictor: Evictor | None
    lateness_us: int
    folds: tuple[AggregatorSpec, ...]
    function: Function | None
    late_columns: tuple[int, ...] | None
    """The columns of the rows of the late side; None: late rows are dropped."""
    output: tuple[str, ...]
    """The columns of the operator's output, in order: key, window or pane, results; or those of
    the function. Then the side, and the columns of late rows."""

    @property
    def keeps_rows(self) -> bool:
        return self.evictor is not None or self.function is not None


State = dict[Any, Any]
