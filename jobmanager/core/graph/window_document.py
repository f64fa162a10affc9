"""From the document of a window to the vertex, with every fault of it."""

from collections.abc import Sequence, Set
from dataclasses import replace
from datetime import timedelta
from typing import Any

from jobmanager.core.graph import aggregate_calls
from jobmanager.core.graph.document_fields import Faults, Fields
from jobmanager.core.graph.inputs import Input
from jobmanager.core.graph.job_graph import Mode, Source
from jobmanager.core.graph.window_vertices import (
    TIME_WINDOWS,
    CountEvictor,
    CountTrigger,
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
    Window,
    WindowKind,
)
from jobmanager.core.ids import VertexId

_SOME = timedelta(seconds=1)
_KINDS = (
    "{tumbling: d}, {sliding: d, every: d}, {session: gap}, {count: n}, {count: n, every: m} "
    "or {global: true}"
)
_TRIGGERS = (
    "{event_time: true}, {processing_time: d}, {count: n} or {delta: expression, threshold: x}"
)
_EVICTORS = "{count: n}, {time: d} or {delta: expression, threshold: x}"


def read_window(
    fields: Fields, vertex_id: VertexId, inputs: tuple[Input, ...], mode: Mode
) -> Window:
    """The window, its time column perhaps still open."""
    kind = _kind(fields)
    window = Window(
        id=vertex_id,
        inputs=inputs,
        key=fields.names("key"),
        time=fields.text("time", ""),
        window=kind,
        aggregate=fields.expressions("aggregate", required=not fields.has("function")),
        trigger=_trigger(fields) if fields.has("trigger") else None,
        evictor=_evictor(fields) if fields.has("evictor") else None,
        allowed_lateness=fields.duration("allowed_lateness", "0s", zero=True) or timedelta(0),
        function=fields.text("function") if fields.has("function") else None,
        output=fields.text("output") if fields.has("output") else None,
    )
    _check_results(fields, window)
    _check_policies(fields, window)
    return window


def check_sides(
    vertices: Sequence[tuple[str, Sequence[Input], object]], faults: Faults
) -> Set[VertexId]:
    """The windows whose late rows some vertex takes. A side that is none is a fault."""
    by_id = {vertex_id: vertex for vertex_id, _, vertex in vertices}
    found: set[VertexId] = set()
    for vertex_id, inputs, _ in vertices:
        for one in inputs:
            window = by_id.get(one.vertex)
            if one.side is None or window is None:
                continue
            if not isinstance(window, Window) or not isinstance(window.window, TIME_WINDOWS):
                faults.add(
                    vertex_id,
                    "inputs",
                    f"{one.vertex!r} has no side {one.side}: only a tumbling, sliding or session "
                    "window has",
                )
            else:
                found.add(one.vertex)
    return found


def settle(
    window: Window, sources: Sequence[Source], late_sides: Set[VertexId], faults: Faults, mode: Mode
) -> Window:
    """The window as it is in its graph; `sources` are those that its rows come from."""
    settled = replace(window, has_late_side=window.id in late_sides)
    if mode is Mode.STREAMING and settled.waits_for_watermark:
        for source in sources:
            if source.watermark is None:
                faults.add(
                    source.id,
                    "watermark",
                    f"missing: window {window.id!r} emits when the watermark passes its end",
                )
    if settled.is_buffered and settled.aggregate:
        try:
            aggregate_calls.take_apart(list(settled.aggregate.values()))
        except aggregate_calls.UnsupportedAggregate as error:
            faults.add(window.id, "aggregate", str(error))
    return _with_time(settled, sources, faults)


def _with_time(window: Window, sources: Sequence[Source], faults: Faults) -> Window:
    if window.time:
        return window
    columns = sorted({source.watermark.column for source in sources if source.watermark})
    if len(columns) == 1:
        return replace(window, time=columns[0], is_time_implied=True)
    if window.needs_time:
        found = ", ".join(columns) or "none"
        faults.add(window.id, "time", f"missing: name the time column (watermarked ones: {found})")
    return window


def _kind(fields: Fields) -> WindowKind:
    stand_in = TumblingWindow(_SOME)
    if not fields.has("window"):
        fields.fault("window", f"missing: {_KINDS}")
        return stand_in
    inner = fields.section("window")
    kind: WindowKind = stand_in
    if _is_one_of(inner, ("tumbling", "sliding", "session", "count", "global"), _KINDS):
        kind = _known_kind(inner)
    inner.done()
    return kind


def _known_kind(inner: Fields) -> WindowKind:
    if inner.has("tumbling"):
        return TumblingWindow(inner.duration("tumbling") or _SOME)
    if inner.has("sliding"):
        size, pause = inner.duration("sliding"), inner.duration("every")
        if size and pause and pause > size:
            inner.fault("every", "rows between two windows would be lost: every is above sliding")
        return SlidingWindow(size or _SOME, pause or _SOME)
    if inner.has("session"):
        return SessionWindow(inner.duration("session") or _SOME)
    if inner.has("count"):
        count, every = inner.integer("count", least=1), inner.integer("every", None, least=1)
        if count and every and every > count:
            inner.fault("every", "rows between two windows would be lost: every is above count")
        return CountWindow(count or 1, every)
    _check_true(inner, "global")
    return GlobalWindow()


def _trigger(fields: Fields) -> Trigger:
    inner = fields.section("trigger")
    trigger: Trigger = EventTimeTrigger()
    if _is_one_of(inner, ("event_time", "processing_time", "count", "delta"), _TRIGGERS):
        if inner.has("processing_time"):
            trigger = ProcessingTimeTrigger(inner.duration("processing_time") or _SOME)
        elif inner.has("count"):
            trigger = CountTrigger(inner.integer("count", least=1) or 1)
        elif inner.has("delta"):
            trigger = DeltaTrigger(inner.text("delta"), _threshold(inner, zero=True))
        else:
            _check_true(inner, "event_time")
    inner.done()
    return trigger


def _evictor(fields: Fields) -> Evictor:
    inner = fields.section("evictor")
    evictor: Evictor = CountEvictor(1)
    if _is_one_of(inner, ("count", "time", "delta"), _EVICTORS):
        if inner.has("count"):
            evictor = CountEvictor(inner.integer("count", least=1) or 1)
        elif inner.has("time"):
            evictor = TimeEvictor(inner.duration("time") or _SOME)
        else:
            evictor = DeltaEvictor(inner.text("delta"), _threshold(inner, zero=False))
    inner.done()
    return evictor


def _is_one_of(inner: Fields, names: Sequence[str], what: str) -> bool:
    given = [name for name in names if inner.has(name)]
    if len(given) == 1:
        return True
    inner.fault("", f"{' and '.join(given)} at once: take one of {what}" if given
                else f"missing: {what}")  # fmt: skip
    return False


def _check_true(inner: Fields, name: str) -> None:
    if inner.raw(name) is not True:
        inner.fault(name, f"{inner.raw(name)!r} is not true: write {{{name}: true}}")


def _threshold(inner: Fields, *, zero: bool) -> float:
    value: Any = inner.raw("threshold")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not (value > 0 or (zero and value == 0)) or value == float("inf"):
        least = "of 0 or more" if zero else "above 0"
        inner.fault(
            "threshold",
            f"missing: a number {least} is needed"
            if value is None
            else f"{value!r} is not a number {least}",
        )
        return 1.0
    return float(value)


def _check_results(fields: Fields, window: Window) -> None:
    taken = ["pane"]
    if isinstance(window.window, TIME_WINDOWS):
        taken = ["window_start", "window_end"]
    for column in window.aggregate:
        if column in (*window.key, *taken):
            fields.fault("aggregate", f"column {column!r} comes out already: name it otherwise")
    for column in window.key:
        if column in taken and window.function is None:
            fields.fault("key", f"column {column!r} comes out already: rename it before")
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
    """Faults of what means nothing together."""
    kind, trigger = window.window, window.trigger
    if isinstance(kind, CountWindow):
        for name in ("trigger", "evictor"):
            if fields.has(name):
                fields.fault(
                    name,
                    f"a count window says by itself when it emits and what it keeps: leave out "
                    f"{name}, or take {{global: true}} with a trigger and an evictor",
                )
    if isinstance(kind, GlobalWindow) and trigger is None:
        fields.fault(
            "trigger", f"missing: a global window has no end, say when it emits: {_TRIGGERS}"
        )
    if not isinstance(kind, TIME_WINDOWS) and window.allowed_lateness:
        fields.fault(
            "allowed_lateness",
            "only a window of time can be late for: leave it out, or take tumbling, sliding or "
            "session",
        )
    if isinstance(kind, SessionWindow) and isinstance(trigger, DeltaTrigger):
        fields.fault(
            "trigger",
            "a delta trigger remembers one row, and sessions become one another: take event_time, "
            "count or processing_time",
        )
