"""The operator `window`.

Tumbling, sliding and session windows with only `aggregate` are computed by Spark. All other windows
are buffered: computed in Python, by key group (`taskrunner/keyed/windows`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar

from jobmanager.core.graph import aggregate_calls
from jobmanager.core.graph.clocks import Clock
from jobmanager.core.graph.columns import Columns, in_schema, missing_columns
from jobmanager.core.graph.document_fields import Faults, Fields
from jobmanager.core.graph.inputs import Side
from jobmanager.core.graph.job_graph import Mode
from jobmanager.core.graph.operator_entry import Header, Operator
from jobmanager.core.graph.sources import Source
from jobmanager.core.graph.state_layout import Layout
from jobmanager.core.graph.vertex import Vertex, named, named_expressions
from jobmanager.core.graph.window_kinds import (
    TIME_WINDOWS,
    TRIGGERS,
    CountWindow,
    DeltaEvictor,
    DeltaTrigger,
    EventTimeTrigger,
    Evictor,
    GlobalWindow,
    ProcessingTimeTrigger,
    SessionWindow,
    SlidingWindow,
    TimeEvictor,
    Trigger,
    TumblingWindow,
    WindowKind,
    read_evictor,
    read_kind,
    read_trigger,
)

if TYPE_CHECKING:
    from jobmanager.core.graph.graph_view import GraphView


@dataclass(frozen=True, slots=True)
class Window(Vertex):
    op: ClassVar[str] = "window"
    key: tuple[str, ...]
    time: str
    """The event-time column; where the user left it out, the source's watermark column.
    Empty: there is none, and none is needed.
    """
    window: WindowKind
    aggregate: Mapping[str, str]
    trigger: Trigger | None = None
    """None: the default of the kind of window."""
    evictor: Evictor | None = None
    allowed_lateness: timedelta = timedelta(0)
    function: str | None = None
    """In place of `aggregate`: `module:name`."""
    output: str | None = None
    """The output columns of `function`, as Spark DDL."""
    is_time_implied: bool = False
    """Whether the user left `time` out."""
    has_late_side: bool = False
    """Whether a vertex uses the rows that came too late."""

    def real_time_faults(self) -> Iterator[tuple[str, str]]:
        yield (
            "op",
            (
                "a window emits once, when it has ended, and Spark's real-time mode emits every "
                "update: aggregate by key and the start of the window, computed in a map"
            ),
        )

    @property
    def window_columns(self) -> tuple[str, ...]:
        """The output columns between the key and the results."""
        is_timed = isinstance(self.window, TIME_WINDOWS)
        return ("window_start", "window_end") if is_timed else ("pane",)

    @property
    def is_buffered(self) -> bool:
        """Whether the window is computed in Python, by key group."""
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
        """Whether the window needs the event time of its rows."""
        return isinstance(self.window, TIME_WINDOWS) or isinstance(self.evictor, TimeEvictor)

    @property
    def clock(self) -> Clock:
        """The time that the window waits for, to emit or to forget rows."""
        if isinstance(self.trigger, ProcessingTimeTrigger):
            return Clock.PROCESSING
        return Clock.EVENT if self.waits_for_watermark else Clock.NONE

    @property
    def waits_for_watermark(self) -> bool:
        """Whether the window emits, or forgets rows, when the watermark moves."""
        return isinstance(self.window, TIME_WINDOWS) or isinstance(self.trigger, EventTimeTrigger)

    @property
    def is_keyed(self) -> bool:
        return True

    @property
    def state_layout(self) -> Layout:
        return Layout.GROUPED if self.is_buffered else Layout.HASHED

    @property
    def emits_windows(self) -> bool:
        return True

    @property
    def has_complete_result(self) -> bool:
        return True

    @property
    def waits_for_time(self) -> bool:
        return self.clock is not Clock.NONE

    @property
    def goes_by_the_clock(self) -> bool:
        return self.clock is Clock.PROCESSING

    @property
    def refuses_update_mode(self) -> str | None:
        return "sessions" if isinstance(self.window, SessionWindow) else None

    @property
    def is_grouped_without_key(self) -> bool:
        return not self.key

    @property
    def results(self) -> Mapping[str, str]:
        return self.aggregate

    @property
    def window_size(self) -> timedelta | None:
        match self.window:
            case TumblingWindow(size=size) | SlidingWindow(size=size):
                return size
            case _:
                return None

    def has_side(self, side: Side) -> bool:
        return isinstance(self.window, TIME_WINDOWS)

    def columns_out(self, inputs: Sequence[Columns | None]) -> Columns | None:
        if self.function is None:
            return (*self.key, *self.window_columns, *self.aggregate)
        return None if self.output is None else in_schema(self.output)

    def expressions(self) -> Iterator[tuple[str, str]]:
        yield from named_expressions("aggregate", self.aggregate)
        if isinstance(self.trigger, DeltaTrigger):
            yield "trigger.delta", self.trigger.delta
        if isinstance(self.evictor, DeltaEvictor):
            yield "evictor.delta", self.evictor.delta

    def needed_columns(self) -> Iterator[tuple[str, str]]:
        yield from named("key", self.key)
        if self.time and (self.needs_time or not self.is_time_implied):
            yield "time", self.time

    def column_faults(self, inputs: Sequence[Columns]) -> Iterator[tuple[str, str]]:
        # the time column is left to Spark: if it is missing, there is a fault of the source, too
        if inputs:
            yield from missing_columns(named("key", self.key), inputs[0])

    def completed(self, graph: "GraphView", faults: Faults) -> "Window":
        """Return the window with its time column, and whether its late rows are used."""
        has_late_side = self.has_side(Side.LATE) and graph.is_side_taken(self.id, Side.LATE)
        window = replace(self, has_late_side=has_late_side)
        sources = graph.sources(self.id)
        if graph.mode is Mode.STREAMING and window.waits_for_watermark:
            for source in sources:
                if source.watermark is None:
                    faults.add(
                        source.id,
                        "watermark",
                        f"missing: window {self.id!r} emits when the watermark passes its end",
                    )
        if window.is_buffered and window.aggregate:
            try:
                aggregate_calls.take_apart(list(window.aggregate.values()))
            except aggregate_calls.UnsupportedAggregate as error:
                faults.add(self.id, "aggregate", str(error))
        return _with_time(window, sources, faults)


def _with_time(window: Window, sources: Sequence[Source], faults: Faults) -> Window:
    if window.time:
        return window
    columns = sorted({source.watermark.column for source in sources if source.watermark})
    if len(columns) == 1:
        return replace(window, time=columns[0], is_time_implied=True)
    if window.needs_time:
        found = ", ".join(columns) or "none"
        faults.add(
            window.id, "time", f"missing: name the time column (columns with a watermark: {found})"
        )
    return window


def _read(fields: Fields, header: Header) -> Window:
    """Read the window; its time column may still be undetermined."""
    kind = read_kind(fields)
    window = Window(
        id=header.id,
        inputs=header.inputs,
        key=fields.names("key"),
        time=fields.text("time", ""),
        window=kind,
        aggregate=fields.expressions("aggregate", required=not fields.has("function")),
        trigger=read_trigger(fields) if fields.has("trigger") else None,
        evictor=read_evictor(fields) if fields.has("evictor") else None,
        allowed_lateness=fields.duration("allowed_lateness", "0s", zero=True) or timedelta(0),
        function=fields.text("function") if fields.has("function") else None,
        output=fields.text("output") if fields.has("output") else None,
    )
    _check_results(fields, window)
    _check_policies(fields, window)
    return window


def _check_results(fields: Fields, window: Window) -> None:
    taken = ["pane"]
    if isinstance(window.window, TIME_WINDOWS):
        taken = ["window_start", "window_end"]
    for column in window.aggregate:
        if column in (*window.key, *taken):
            fields.fault(
                "aggregate", f"column {column!r} is already in the output: choose another name"
            )
    for column in window.key:
        if column in taken and window.function is None:
            fields.fault(
                "key", f"column {column!r} is already in the output: rename it in a map before"
            )
    if window.function is None:
        if window.output is not None:
            fields.fault("output", "only a function has an output: leave it out")
        return
    if window.aggregate:
        fields.fault("aggregate", "a window has aggregate or function: leave one of them out")
    module, colon, name = window.function.partition(":")
    if not (module.strip() and colon and name.strip()):
        fields.fault("function", f"{window.function!r} is not of the form module:name")
    if window.output is None:
        fields.fault("output", "missing: the columns that the function gives, as a schema")


def _check_policies(fields: Fields, window: Window) -> None:
    """Note combinations of fields that have no meaning."""
    kind, trigger = window.window, window.trigger
    if isinstance(kind, CountWindow):
        for name in ("trigger", "evictor"):
            if fields.has(name):
                fields.fault(
                    name,
                    f"a count window determines when it emits and what it keeps: leave out "
                    f"{name}, or take {{global: true}} with a trigger and an evictor",
                )
    if isinstance(kind, GlobalWindow) and trigger is None:
        fields.fault(
            "trigger", f"missing: a global window has no end and needs a trigger: {TRIGGERS}"
        )
    if not isinstance(kind, TIME_WINDOWS) and window.allowed_lateness:
        fields.fault(
            "allowed_lateness",
            "only a time window can wait for late rows: leave it out, or use tumbling, sliding or "
            "session",
        )
    if isinstance(kind, SessionWindow) and isinstance(trigger, DeltaTrigger):
        fields.fault(
            "trigger",
            "a delta trigger remembers a row, and sessions are merged: use event_time, "
            "count or processing_time",
        )


OPERATORS = (Operator("window", _read, is_always_keyed=True),)
