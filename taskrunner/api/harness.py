"""Runs a process function in a unit test, without Spark.

    harness = ProcessHarness(Reminder, key=["user"], time="event", time_column="ts")
    harness.feed({"user": "ann", "item": "book", "ts": at(0)})
    harness.advance_watermark(at(60))
    assert harness.take_output() == [{"user": "ann", "left_behind": "book"}]

The harness runs the same code as a job. State is serialised between two calls as in Spark, so state
that cannot be stored fails here too.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from jobmanager.core.graph.clocks import Clock
from taskrunner.api import accumulators
from taskrunner.api.process import ProcessFunction, Row, as_milliseconds
from taskrunner.core.end_of_time import END_OF_TIME_MS
from taskrunner.keyed import group_state, readable_state
from taskrunner.keyed.group_state import Key
from taskrunner.keyed.operator import NO_WATERMARK_MS, Moment
from taskrunner.keyed.process import Processing, Timed
from taskrunner.keyed.vertex_context import VertexContext


class ProcessHarness:
    """Runs one process function for one key group that has all keys."""

    def __init__(
        self,
        function: type[ProcessFunction],
        *,
        key: Sequence[str] | str = (),
        time: str = "none",
        time_column: str | None = None,
        now: int | datetime = 0,
    ) -> None:
        """`time` and `key` are as in the graph; `time_column` is the column of the watermark."""
        self._key = (key,) if isinstance(key, str) else tuple(key)
        self._time_column = time_column
        self._output: list[Row] = []
        subject = VertexContext("harness", function.__name__, self._key, pa.schema([]))
        clock = Clock(time)
        if clock is Clock.EVENT and time_column is None:
            raise ValueError("time: event needs the time_column that the watermark is of")
        has_time = time_column is not None
        self._processing = Processing(function, subject, clock, has_time=has_time)
        self._group: bytes | None = None
        self._tallies: dict[str, accumulators.Tally] = {}
        self._watermark_ms = NO_WATERMARK_MS
        self._processing_ms = as_milliseconds(now)

    def feed(self, *rows: Mapping[str, Any]) -> None:
        """Processes a batch of these rows. As in a job, they are ordered by their times."""
        if not rows:
            return
        timed = [(dict(row), self._time_of(row)) for row in rows]
        timed.sort(key=lambda one: (one[1] is None, one[1] or 0))
        given: dict[Key, list[Timed]] = {}
        for row, moment in timed:
            given.setdefault(tuple(row[name] for name in self._key), []).append((row, moment))
        self._call(given)

    def advance_watermark(self, to: int | datetime) -> None:
        """Advances the watermark, and fires the timers that are due. It never goes back."""
        self._watermark_ms = max(self._watermark_ms, as_milliseconds(to))
        self._call({})

    def advance_processing_time(self, to: int | datetime) -> None:
        """Advances the processing time, and fires the timers that are due."""
        self._processing_ms = max(self._processing_ms, as_milliseconds(to))
        self._call({})

    def drain(self) -> None:
        """Advances to the end of time, as when a bounded job ends or is stopped with a drain."""
        self._watermark_ms = self._processing_ms = END_OF_TIME_MS
        self._call({})

    def take_output(self) -> list[Row]:
        """The rows that were emitted since the last call."""
        found, self._output = self._output, []
        return found

    def state(self, key: Any) -> dict[str, Any]:
        """The state of a key, by state name; empty if there is none."""
        blob = self._read().blobs.get(self._as_key(key))
        return {} if blob is None else readable_state.states_of(group_state.unpack_key(blob))

    def timers(self, key: Any) -> list[int]:
        """The timers of a key in milliseconds, the earliest first."""
        return list(self._read().timers.get(self._as_key(key), ()))

    @property
    def accumulators(self) -> dict[str, int | float]:
        """The accumulators so far, by name."""
        return {name: tally.value for name, tally in self._tallies.items()}

    def _call(self, given: Mapping[Key, list[Timed]]) -> None:
        group = self._read()
        moment = Moment(self._watermark_ms, self._processing_ms)
        self._output += [dict(row) for row in self._processing.run(group, given, moment)]
        self._group = group_state.pack(group)
        self._tallies = accumulators.merged(self._tallies, accumulators.take())

    def _time_of(self, row: Mapping[str, Any]) -> int | None:
        time = row[self._time_column] if self._time_column is not None else None
        return None if time is None else as_milliseconds(time)

    def _read(self) -> group_state.GroupState:
        return group_state.unpack(self._group)

    def _as_key(self, key: Any) -> Key:
        return key if isinstance(key, tuple) else (key,)
