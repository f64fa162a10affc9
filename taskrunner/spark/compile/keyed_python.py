"""Runs keyed Python operators on Spark: one call and one state value for each key group.

The grouping key is the key group itself, `pmod(hash(key), max_parallelism)`, so the state
partition is the hash of that number (`Layout.GROUPED`).

Two habits of Spark are worked around. It drops rows behind the watermark before a function with
event-time timeouts sees them: so the only event-time column that Spark gets is an internal one,
which is never late. And partitions come out of a shuffle in any order: so each row carries the
number of its partition before the shuffle. Inside a partition a shuffle keeps the order.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.types import LongType, StructField, StructType, TimestampType

from jobmanager.core.graph.clocks import Clock
from taskrunner.core.end_of_time import END_OF_TIME_MS
from taskrunner.keyed import times
from taskrunner.keyed.operator import NO_WATERMARK_MS, GroupOperator, Moment, Outcome
from taskrunner.spark.session.column_names import column

MakeOperator = Callable[[], GroupOperator]
_ARRIVAL = "__headgate_arrival"
GROUP = "__headgate_group"
_STATE = "value BINARY"
_TIME_OUTS = {
    Clock.EVENT: GroupStateTimeout.EventTimeTimeout,
    Clock.PROCESSING: GroupStateTimeout.ProcessingTimeTimeout,
    Clock.NONE: GroupStateTimeout.NoTimeout,
}
_NEVER_LATE = "__headgate_never_late"
_EVENT_TIME = {"spark.watermarkDelayMs": 0}
"""The metadata that marks a column as Spark's event time."""
_PLAIN = {"headgate": "plain"}
"""Any other metadata removes that mark from a column."""


def apply_by_group(
    frame: DataFrame,
    key: Sequence[str | Column],
    max_parallelism: int,
    make_operator: MakeOperator,
    output: StructType,
    clock: Clock,
    time: str | None = None,
    report: Callable[[], None] | None = None,
) -> DataFrame:
    """Applies the operator to `frame`, streaming or batch, by key group.

    `make_operator` is called once in each Python process that runs the vertex. `time` is the
    column by which rows are ordered; None: they are in order of arrival. `report` is called after
    each call of the operator, in the same process.
    """
    rows = raw(frame)
    if frame.isStreaming and clock is Clock.EVENT:
        # Spark requires an event time before it sets a timeout by the watermark
        nothing = sql.lit(None).cast("timestamp")
        rows = rows.select("*", nothing.alias(_NEVER_LATE, metadata=_EVENT_TIME))
    # a column, since Spark accepts no expression here
    grouped = rows.withColumn(GROUP, key_group(key, max_parallelism)).groupBy(GROUP)
    conversion = Conversion.between(frame.schema, output, time)
    if frame.isStreaming:
        calls = StreamingCalls(make_operator, conversion, report, clock)
        results = grouped.applyInPandasWithState(
            calls, with_micros(output), _STATE, "append", _TIME_OUTS[clock]
        )
    else:
        whole = BatchCalls(make_operator, conversion, report)

        # a plain function: for a method Spark would count one argument too many
        def run(rows: pd.DataFrame) -> pd.DataFrame:
            return whole.run(rows)

        results = grouped.applyInPandas(run, with_micros(output))
    return from_raw(results, output)


def key_group(key: Sequence[str | Column], max_parallelism: int) -> Column:
    """The key group of a row, as an INT. Without a key there is only one group."""
    if not key:
        # not a constant, which Spark's optimiser would remove from the grouping
        return sql.pmod(sql.hash(sql.col(_ARRIVAL)), sql.lit(1))
    return sql.pmod(sql.hash(*map(_column, key)), sql.lit(max_parallelism))


def raw(frame: DataFrame) -> DataFrame:
    """The rows as they go to Python: times as microseconds, without Spark's event-time mark, and
    each row with its original position.
    """
    # a number for each row is what Spark refuses in a stream
    place = sql.spark_partition_id() if frame.isStreaming else sql.monotonically_increasing_id()
    columns = [_to_raw(field).alias(field.name, metadata=_PLAIN) for field in frame.schema.fields]
    return frame.select(*columns, place.alias(_ARRIVAL))


def from_raw(rows: DataFrame, output: StructType) -> DataFrame:
    """The rows from Python, with microseconds converted back to times."""
    return rows.select(*(_from_raw(field) for field in output.fields))


def with_micros(schema: StructType) -> StructType:
    """The schema with numbers of microseconds instead of timestamps."""
    micros = _timestamps(schema)
    return StructType(
        [
            StructField(field.name, LongType() if field.name in micros else field.dataType)
            for field in schema.fields
        ]
    )


def _timestamps(schema: StructType) -> tuple[str, ...]:
    return tuple(one.name for one in schema.fields if isinstance(one.dataType, TimestampType))


def _to_raw(field: StructField) -> Column:
    is_time = isinstance(field.dataType, TimestampType)
    return sql.unix_micros(_column(field.name)) if is_time else _column(field.name)


def _from_raw(field: StructField) -> Column:
    is_time = isinstance(field.dataType, TimestampType)
    micros = sql.timestamp_micros(_column(field.name)) if is_time else _column(field.name)
    return micros.alias(field.name)


def _column(name: str | Column) -> Column:
    if isinstance(name, Column):
        return name
    return column(name)


@dataclass(frozen=True, slots=True)
class Conversion:
    """How rows are converted on the way in and out: their times, and their order."""

    times_in: tuple[str, ...]
    times_out: tuple[str, ...]
    by: str | None

    @classmethod
    def between(cls, rows: StructType, output: StructType, by: str | None = None) -> "Conversion":
        return cls(_timestamps(rows), _timestamps(output), by)

    def into(self, rows: pd.DataFrame) -> pd.DataFrame:
        """The rows in order, without internal columns."""
        arrival = rows[_ARRIVAL].to_numpy()
        rows = rows.drop(columns=[GROUP, _ARRIVAL, _NEVER_LATE], errors="ignore")
        for name in self.times_in:
            rows[name] = times.from_micros(rows[name])
        if self.by is None:
            order = np.argsort(arrival, kind="stable")
        else:
            # rows without a time sort last
            order = np.lexsort((arrival, rows[self.by].to_numpy()))
        return rows.take(order).reset_index(drop=True)

    def out_of(self, rows: pd.DataFrame) -> pd.DataFrame:
        found = rows.copy(deep=False)
        for name in self.times_out:
            found[name] = times.to_micros(found[name])
        return found


class _Calls:
    """Makes the operator where it is used: this object is shipped, the operator is not."""

    def __init__(
        self,
        make_operator: MakeOperator,
        conversion: Conversion,
        report: Callable[[], None] | None,
    ) -> None:
        self._make_operator = make_operator
        self._conversion = conversion
        self._report = report
        self._operator: GroupOperator | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_operator": None}

    def take(self, state: bytes | None, rows: pd.DataFrame | None, moment: Moment) -> Outcome:
        if self._operator is None:
            self._operator = self._make_operator()
        outcome = self._operator.take(state, rows, moment)
        if self._report is not None:
            self._report()
        return outcome


class StreamingCalls(_Calls):
    """The function that Spark calls for each key group with rows or with an expired timeout."""

    def __init__(
        self,
        make_operator: MakeOperator,
        conversion: Conversion,
        report: Callable[[], None] | None,
        clock: Clock,
    ) -> None:
        super().__init__(make_operator, conversion, report)
        self._clock = clock

    def __call__(
        self, key: Any, frames: Iterable[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        rows = None if state.hasTimedOut else self._conversion.into(_joined(frames))
        moment = self._moment(state)
        kept = state.getOption
        outcome = self.take(None if kept is None else bytes(kept[0]), rows, moment)
        self._keep(state, outcome, moment)
        if len(outcome.rows):
            yield self._conversion.out_of(outcome.rows)

    def _moment(self, state: GroupState) -> Moment:
        # Spark has a watermark of 0 before the first row
        if self._clock is Clock.EVENT:
            watermark = state.getCurrentWatermarkMs()
        else:
            # the public method requires an event time among the columns
            watermark = getattr(state, "_event_time_watermark_ms", 0)
        return Moment(
            watermark if watermark > 0 else NO_WATERMARK_MS, state.getCurrentProcessingTimeMs()
        )

    def _keep(self, state: GroupState, outcome: Outcome, moment: Moment) -> None:
        if outcome.state is None:
            if state.exists:
                state.remove()
            return
        state.update((outcome.state,))
        if outcome.timer_ms is None:
            return
        # Spark calls when the time is past the timeout; a timer is due when it is reached
        if self._clock is Clock.EVENT:
            state.setTimeoutTimestamp(max(outcome.timer_ms - 1, moment.watermark_ms, 1))
        elif self._clock is Clock.PROCESSING:
            state.setTimeoutDuration(max(outcome.timer_ms - 1 - moment.processing_ms, 1))


class BatchCalls(_Calls):
    """The function that Spark calls for each key group of a batch job."""

    def run(self, rows: pd.DataFrame) -> pd.DataFrame:
        start = Moment(NO_WATERMARK_MS, _now_ms())
        first = self.take(None, self._conversion.into(rows), start)
        if first.state is None:
            return self._conversion.out_of(first.rows)
        end = Moment(END_OF_TIME_MS, END_OF_TIME_MS)
        last = self.take(first.state, None, end)
        return self._conversion.out_of(_joined([first.rows, last.rows]))


def _joined(frames: Iterable[pd.DataFrame]) -> pd.DataFrame:
    every = list(frames)
    filled = [frame for frame in every if len(frame)]
    if len(filled) == 1:
        return filled[0]
    return pd.concat(filled, ignore_index=True) if filled else every[0]


def _now_ms() -> int:
    return int(pd.Timestamp.now("UTC").timestamp() * 1000)
