"""Keyed Python operators on Spark: one call for a key group, one value of state.

The grouping key is the key group itself, `pmod(hash(key), max_parallelism)`, so the state
partition is the hash of that number (`Layout.GROUPED`).

Two things that Spark does by itself are kept from it. It drops rows behind the watermark
before a function with event-time time-outs sees them: so no column goes in as Spark's event time
but one of our own, which is never late. And partitions come out of a shuffle in any order: so each
row carries the number of the one it was in before. Inside a partition a shuffle keeps the order.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.types import StructType

from jobmanager.core.clocks import Clock
from taskrunner.core.end_of_time import END_OF_TIME_MS
from taskrunner.keyed.operator import NO_WATERMARK_MS, GroupOperator, Moment, Outcome

MakeOperator = Callable[[], GroupOperator]
_ARRIVAL = "__headgate_arrival"
_GROUP = "__headgate_group"
_STATE = "value BINARY"
_TIME_OUTS = {
    Clock.EVENT: GroupStateTimeout.EventTimeTimeout,
    Clock.PROCESSING: GroupStateTimeout.ProcessingTimeTimeout,
    Clock.NONE: GroupStateTimeout.NoTimeout,
}
_NEVER_LATE = "__headgate_never_late"
_EVENT_TIME = {"spark.watermarkDelayMs": 0}
"""What makes a column Spark's event time."""
_PLAIN = {"headgate": "plain"}
"""Any metadata of its own takes that mark off a column."""


def apply_by_group(
    frame: DataFrame,
    key: Sequence[str],
    max_parallelism: int,
    make_operator: MakeOperator,
    output: StructType,
    clock: Clock,
    time: str | None = None,
) -> DataFrame:
    """The rows that the operator makes of `frame`, streaming or batch.

    `make_operator` is called once in each Python process that works for the vertex. `time` is the
    column by which rows are ordered; None: they come as they arrived.
    """
    rows = _plain(frame, clock).withColumn(_ARRIVAL, _arrival(frame))
    # a column, since Spark wants no expression here
    grouped = rows.withColumn(_GROUP, key_group(key, max_parallelism)).groupBy(_GROUP)
    if frame.isStreaming:
        function = StreamingCalls(make_operator, clock, time)
        return grouped.applyInPandasWithState(function, output, _STATE, "append", _TIME_OUTS[clock])
    return grouped.applyInPandas(BatchCalls(make_operator, time), output)


def key_group(key: Sequence[str], max_parallelism: int) -> Column:
    """The key group of a row, as an INT. Without a key there is just the one."""
    if not key:
        # not a constant, which Spark's optimiser would take out of the grouping
        return sql.pmod(sql.hash(sql.col(_ARRIVAL)), sql.lit(1))
    return sql.pmod(sql.hash(*map(_column, key)), sql.lit(max_parallelism))


def _arrival(frame: DataFrame) -> Column:
    # a number for each row is what Spark refuses in a stream
    return sql.spark_partition_id() if frame.isStreaming else sql.monotonically_increasing_id()


def _plain(frame: DataFrame, clock: Clock) -> DataFrame:
    """The same columns, none of them Spark's event time; with the event clock one that is."""
    columns = [
        _column(field.name).alias(field.name, metadata=_PLAIN) for field in frame.schema.fields
    ]
    if frame.isStreaming and clock is Clock.EVENT:
        # Spark wants to see one before it sets a time-out by the watermark
        nothing = sql.lit(None).cast("timestamp")
        columns.append(nothing.alias(_NEVER_LATE, metadata=_EVENT_TIME))
    return frame.select(*columns)


def _column(name: str) -> Column:
    return sql.col("`" + name.replace("`", "``") + "`")


class _Calls:
    """Makes the operator where it is used: this object travels, the operator does not."""

    def __init__(self, make_operator: MakeOperator, time: str | None) -> None:
        self._make_operator = make_operator
        self._time = time
        self._operator: GroupOperator | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_operator": None}

    @property
    def operator(self) -> GroupOperator:
        if self._operator is None:
            self._operator = self._make_operator()
        return self._operator

    def in_order(self, rows: pd.DataFrame) -> pd.DataFrame:
        arrival = rows.pop(_ARRIVAL).to_numpy()
        rows.drop(columns=[_GROUP, _NEVER_LATE], errors="ignore", inplace=True)
        if self._time is None:
            order = np.argsort(arrival, kind="stable")
        else:
            times = rows[self._time].to_numpy()  # what is not a time sorts last
            order = np.lexsort((arrival, times))
        return rows.take(order).reset_index(drop=True)


class StreamingCalls(_Calls):
    """What Spark calls for each key group with rows, and for each whose time is out."""

    def __init__(self, make_operator: MakeOperator, clock: Clock, time: str | None) -> None:
        super().__init__(make_operator, time)
        self._clock = clock

    def __call__(
        self, key: Any, frames: Iterable[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        rows = None if state.hasTimedOut else self.in_order(_joined(frames))
        moment = self._moment(state)
        kept = state.getOption
        outcome = self.operator.take(None if kept is None else bytes(kept[0]), rows, moment)
        self._keep(state, outcome, moment)
        if len(outcome.rows):
            yield outcome.rows

    def _moment(self, state: GroupState) -> Moment:
        # Spark has a watermark of 0 before the first row
        watermark = state.getCurrentWatermarkMs() if self._clock is Clock.EVENT else 0
        return Moment(watermark or NO_WATERMARK_MS, state.getCurrentProcessingTimeMs())

    def _keep(self, state: GroupState, outcome: Outcome, moment: Moment) -> None:
        if outcome.state is None:
            if state.exists:
                state.remove()
            return
        state.update((outcome.state,))
        if outcome.timer_ms is None:
            return
        # Spark calls when the time is past the time-out; a timer is due when it is reached
        if self._clock is Clock.EVENT:
            state.setTimeoutTimestamp(max(outcome.timer_ms - 1, moment.watermark_ms, 1))
        elif self._clock is Clock.PROCESSING:
            state.setTimeoutDuration(max(outcome.timer_ms - 1 - moment.processing_ms, 1))


class BatchCalls(_Calls):
    """What Spark calls for each key group of a batch job."""

    def __call__(self, rows: pd.DataFrame) -> pd.DataFrame:
        start = Moment(NO_WATERMARK_MS, _now_ms())
        first = self.operator.take(None, self.in_order(rows), start)
        if first.state is None:
            return first.rows
        end = Moment(END_OF_TIME_MS, END_OF_TIME_MS)
        last = self.operator.take(first.state, None, end)
        return _joined([first.rows, last.rows])


def _joined(frames: Iterable[pd.DataFrame]) -> pd.DataFrame:
    every = list(frames)
    filled = [frame for frame in every if len(frame)]
    if len(filled) == 1:
        return filled[0]
    return pd.concat(filled, ignore_index=True) if filled else every[0]


def _now_ms() -> int:
    return int(pd.Timestamp.now("UTC").timestamp() * 1000)
