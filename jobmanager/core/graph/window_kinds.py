"""The parts of a window: its kind, when it emits (trigger) and which rows it drops (evictor)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from jobmanager.core.graph.document_fields import Fields

_SOME = timedelta(seconds=1)
_KINDS = (
    "{tumbling: d}, {sliding: d, every: d}, {session: gap}, {count: n}, {count: n, every: m} "
    "or {global: true}"
)
TRIGGERS = (
    "{event_time: true}, {processing_time: d}, {count: n} or {delta: expression, threshold: x}"
)
_EVICTORS = "{count: n}, {time: d} or {delta: expression, threshold: x}"


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
    """A window of all rows of a key, without an end."""


TimeWindow = TumblingWindow | SlidingWindow | SessionWindow
WindowKind = TimeWindow | CountWindow | GlobalWindow
TIME_WINDOWS = (TumblingWindow, SlidingWindow, SessionWindow)


@dataclass(frozen=True, slots=True)
class EventTimeTrigger:
    """Emits a window when the watermark passes its end."""


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


def read_kind(fields: Fields) -> WindowKind:
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
            inner.fault(
                "every", "every is longer than sliding, so rows between two windows would be lost"
            )
        return SlidingWindow(size or _SOME, pause or _SOME)
    if inner.has("session"):
        return SessionWindow(inner.duration("session") or _SOME)
    if inner.has("count"):
        count, every = inner.integer("count", least=1), inner.integer("every", None, least=1)
        if count and every and every > count:
            inner.fault(
                "every", "every is larger than count, so rows between two windows would be lost"
            )
        return CountWindow(count or 1, every)
    _check_true(inner, "global")
    return GlobalWindow()


def read_trigger(fields: Fields) -> Trigger:
    inner = fields.section("trigger")
    trigger: Trigger = EventTimeTrigger()
    if _is_one_of(inner, ("event_time", "processing_time", "count", "delta"), TRIGGERS):
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


def read_evictor(fields: Fields) -> Evictor:
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
    inner.fault("", f"{' and '.join(given)} at once: use one of {what}" if given
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
