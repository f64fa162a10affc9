"""Runs a process function for a key group: rows, states and timers of each key.

In one call each key gets the timers that were due before its rows arrived, then its rows, then
the timers that are due by now. Timers of a key fire in the order of their times.

At the end of time every existing timer fires; timers that `on_timer` registers then are dropped,
because a function that registers a new timer each time would never end.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any

import pandas as pd

from jobmanager.core.graph.clocks import Clock
from taskrunner.api.process import Context, ProcessFunction, Row, states_of
from taskrunner.api.state import Cells, State
from taskrunner.core.end_of_time import END_OF_TIME_MS
from taskrunner.keyed import group_state, rows, times
from taskrunner.keyed.group_state import GroupState, Key
from taskrunner.keyed.operator import Moment, Outcome
from taskrunner.keyed.vertex_context import VertexContext

Timed = tuple[Row, int | None]
"""A row, and its event time in milliseconds."""


class ProcessOperator:
    """Runs one process function for any key group."""

    def __init__(
        self,
        function: type[ProcessFunction],
        subject: VertexContext,
        clock: Clock,
        time: str | None = None,
    ) -> None:
        self._subject = subject
        self._time = time
        self._processing = Processing(function, subject, clock, has_time=time is not None)

    def take(self, state: bytes | None, frame: pd.DataFrame | None, moment: Moment) -> Outcome:
        group = group_state.unpack(state)
        given = {} if frame is None else self._by_key(frame)
        emitted = self._processing.run(group, given, moment)
        subject = self._subject
        found = rows.frame_of(emitted, subject.output, subject.vertex, subject.function)
        return Outcome(found, group_state.pack(group), self._processing.next_timer(group))

    def _by_key(self, frame: pd.DataFrame) -> dict[Key, list[Timed]]:
        columns = rows.columns_of(frame, self._subject.aware)
        keys = rows.keys_of(columns, self._subject.key, len(frame))
        moments: Iterable[int | None] = repeat(None)
        if self._time is not None:
            moments = times.milliseconds_of(frame[self._time])
        items = list(zip(rows.rows_of(columns), moments, strict=False))
        return rows.grouped(keys, items, self._subject.no_key)


class Processing:
    """The function, bound to states and timers of one key after the other, without data frames."""

    def __init__(
        self,
        function: type[ProcessFunction],
        subject: VertexContext,
        clock: Clock,
        *,
        has_time: bool,
    ) -> None:
        self._subject = subject
        self._clock = clock
        self._has_time = has_time
        self._cells = Cells()
        self._ctx = Context(clock)
        try:
            self._function = function()
            self._states = self._bind()
            self._function.open()
        except Exception as error:
            raise subject.failed(error, "open", None) from error
        self._has_ttl = any(state.ttl_ms is not None for state in self._states.values())

    def run(
        self, group: GroupState, given: Mapping[Key, Sequence[Timed]], moment: Moment
    ) -> list[Mapping[str, Any]]:
        """Changes the group and returns the emitted rows. `given` is in the order of time."""
        now = moment.watermark_ms if self._clock is Clock.EVENT else moment.processing_ms
        ctx = self._ctx
        ctx.begin_batch(moment.watermark_ms, moment.processing_ms)
        if self._clock is not Clock.NONE:
            self._fire_due(group, now)
        for key, mine in given.items():
            self._begin(group, key)
            try:
                self._process_key(mine, now)
            except Exception as error:
                raise self._subject.failed(error, "process", ctx.key) from error
            if ctx.timers and ctx.timers[0] <= now:
                self._fire(now)
            self._end(group, key, now)
        if self._has_ttl:
            self._sweep(group, now)
        return ctx.emitted

    def next_timer(self, group: GroupState) -> int | None:
        """When the group is next due: for a timer, or to delete an expired key."""
        if self._clock is Clock.NONE:
            return None
        ahead = [mine[0] for mine in group.timers.values()]
        return min([*ahead, *group.expiries.values()], default=None)

    def _bind(self) -> Mapping[str, State]:
        states = states_of(type(self._function))
        for name, state in states.items():
            setattr(self._function, name, state.bound(self._cells))
        return {state.cell: state for state in states.values()}

    def _process_key(self, mine: Sequence[Timed], now: int) -> None:
        ctx, cells, process = self._ctx, self._cells, self._function.process
        cells.now_ms = now
        if not self._has_time:
            for row, _ in mine:
                process(row, ctx)
            return
        is_event = self._clock is Clock.EVENT
        for row, moment in mine:
            ctx.timestamp_ms = moment
            if is_event:
                cells.now_ms = now if moment is None or moment < now else moment
            process(row, ctx)

    def _fire_due(self, group: GroupState, now: int) -> None:
        for key in [key for key, mine in group.timers.items() if mine[0] <= now]:
            self._begin(group, key)
            self._fire(now)
            self._end(group, key, now)

    def _fire(self, now: int) -> None:
        ctx = self._ctx
        if now < END_OF_TIME_MS:
            while ctx.timers and ctx.timers[0] <= now:
                self._call_timer(ctx.timers.pop(0))
            return
        last, ctx.timers = ctx.timers, []
        for time_ms in last:
            self._call_timer(time_ms)
        ctx.timers = []

    def _call_timer(self, time_ms: int) -> None:
        self._ctx.timestamp_ms = self._cells.now_ms = time_ms
        try:
            self._function.on_timer(time_ms, self._ctx)
        except Exception as error:
            raise self._subject.failed(error, "on_timer", self._ctx.key) from error

    def _begin(self, group: GroupState, key: Key) -> None:
        blob = group.blobs.get(key)
        self._cells.values = {} if blob is None else group_state.unpack_key(blob)
        self._ctx.timers = group.timers.pop(key, [])
        self._ctx.key = self._subject.shown(key)
        self._ctx.timestamp_ms = None

    def _end(self, group: GroupState, key: Key, now: int) -> None:
        values = self._cells.values
        if self._has_ttl:
            values = self._kept(values, now)
            self._set_expiry(group, key, values)
        if values:
            try:
                group.blobs[key] = group_state.pack_key(values)
            except Exception as error:
                raise self._subject.failed(error, "process", self._ctx.key) from error
        else:
            group.blobs.pop(key, None)
        if self._ctx.timers:
            group.timers[key] = self._ctx.timers

    def _kept(self, values: dict[str, Any], now: int) -> dict[str, Any]:
        """The state without expired values. States that the class no longer declares stay."""
        found = {}
        for name, held in values.items():
            state = self._states.get(name)
            left = held if state is None else state.swept(held, now)
            if left is not None:
                found[name] = left
        return found

    def _set_expiry(self, group: GroupState, key: Key, values: dict[str, Any]) -> None:
        group.expiries.pop(key, None)
        ends = [
            self._states[name].expiry_of(held) if name in self._states else None
            for name, held in values.items()
        ]
        known = [end for end in ends if end is not None]
        if known and len(known) == len(ends):
            group.expiries[key] = max(known)

    def _sweep(self, group: GroupState, now: int) -> None:
        """Deletes keys without any state left. Their timers stay."""
        for key in [key for key, end in group.expiries.items() if end <= now]:
            del group.expiries[key]
            group.blobs.pop(key, None)
