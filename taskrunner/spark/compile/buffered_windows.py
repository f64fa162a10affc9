"""Compiles windows that are computed in Python.

Spark computes the arguments of the aggregate functions row by row and sends them to the
operator (`taskrunner.keyed.windows`) with the key and the time. The results of the functions come
back, and Spark computes the expressions around them. So all types are those that Spark determines.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, types
from pyspark.sql import functions as sql

from jobmanager.core.durations import milliseconds
from jobmanager.core.graph import aggregate_calls
from jobmanager.core.graph.aggregate_calls import Call
from jobmanager.core.graph.window_kinds import (
    TIME_WINDOWS,
    CountEvictor,
    CountTrigger,
    CountWindow,
    DeltaEvictor,
    DeltaTrigger,
    EventTimeTrigger,
    GlobalWindow,
    ProcessingTimeTrigger,
    SessionWindow,
    SlidingWindow,
    TimeEvictor,
    TumblingWindow,
)
from jobmanager.core.graph.windows import Window
from taskrunner import functions
from taskrunner.core.invalid_vertex import VertexRefused
from taskrunner.keyed.windows import spec as told
from taskrunner.keyed.windows.aggregators import AggregatorSpec
from taskrunner.keyed.windows.operator import WindowOperator
from taskrunner.keyed.windows.spec import SIDE, SentColumn, WindowSpec
from taskrunner.spark.compile import accumulators, late_rows
from taskrunner.spark.compile.column_transport import (
    TransportedColumns,
    decoded,
    encoded_type,
    is_nested,
    is_time,
    original,
)
from taskrunner.spark.compile.keyed_python import apply_by_group
from taskrunner.spark.session.column_names import column, quoted

_NO_TIME = 2**62
"""Rows without a time come after all others."""
_NUMBERS = ("sum", "avg", "stddev_samp", "stddev_pop", "var_samp", "var_pop", "median")
_ORDERED = ("min", "max", "min_by", "max_by")


def buffered_window(vertex: Window, rows: DataFrame, max_parallelism: int) -> DataFrame:
    """The window's results; with a late side also its late rows (`late_rows`)."""
    return _Compilation(vertex, rows).frame(max_parallelism)


@dataclass(frozen=True, slots=True)
class _Field:
    """A column of the operator's output, and its original type."""

    name: str
    kind: types.DataType

    @property
    def sent(self) -> types.StructField:
        return types.StructField(self.name, encoded_type(self.kind), True)

    @property
    def column(self) -> Column:
        return decoded(sql.col(self.name), self.kind)


class _Compilation:
    def __init__(self, vertex: Window, rows: DataFrame) -> None:
        self._vertex = vertex
        self._rows = rows
        self._parcel = TransportedColumns()
        self._columns: list[SentColumn] = []
        self._at: dict[str, int] = {}
        self._time = self._time_column()
        texts = list(vertex.aggregate.values())
        self._calls, self._around = aggregate_calls.take_apart(texts) if texts else ([], [])

    def frame(self, max_parallelism: int) -> DataFrame:
        spec, results, late = self._specification()
        fields = [*results]
        if spec.late_columns is not None:
            fields += [_Field(SIDE, types.StringType()), *late]
        schema = types.StructType([field.sent for field in fields])
        given = apply_by_group(
            self._parcel.of(self._rows),
            [original(one) for one in spec.key],
            max_parallelism,
            lambda: WindowOperator(spec),
            schema,
            self._vertex.clock,
            None if spec.time is None else spec.columns[spec.time].name,
            None
            if spec.function is None
            else accumulators.reporter(self._rows.sparkSession, self._vertex.id),
        )
        return self._shown(given, results, late if spec.late_columns is not None else None)

    def _specification(self) -> tuple[WindowSpec, list[_Field], list[_Field]]:
        vertex = self._vertex
        key = [self._put_key(name) for name in vertex.key]
        evictor, folds = self._evictor(), self._folds()
        inputs = range(0)
        if vertex.function is not None:
            inputs = self._put_inputs()
        if not self._columns:
            self._put("1")  # so that a buffer has a length
        buffered = len(self._columns)
        trigger = self._trigger()
        time = self._put_time()
        if vertex.has_late_side and not inputs:
            inputs = self._put_inputs()
        results = self._result_fields()
        late = [
            _Field(f"l{at}", field.dataType) for at, field in enumerate(self._rows.schema.fields)
        ]
        output = [field.name for field in results]
        if vertex.has_late_side:
            output += [SIDE, *(field.name for field in late)]
        spec = WindowSpec(
            key=tuple(key),
            columns=tuple(self._columns),
            buffered=buffered,
            time=time,
            kind=_kind(vertex),
            trigger=trigger,
            evictor=evictor,
            lateness_us=milliseconds(vertex.allowed_lateness) * 1000,
            folds=tuple(folds),
            function=self._function(inputs),
            late_columns=tuple(inputs) if vertex.has_late_side else None,
            output=tuple(output),
        )
        return spec, results, late

    def _shown(
        self, given: DataFrame, results: Sequence[_Field], late: Sequence[_Field] | None
    ) -> DataFrame:
        """The operator's output, in the columns that users know."""
        vertex = self._vertex
        if vertex.function is not None:
            names = [field.name for field in self._output.fields]
        else:
            names = [*vertex.key, *self._vertex.window_columns, *self._call_columns()]
        columns = [field.column.alias(name) for field, name in zip(results, names, strict=True)]
        if late is not None:
            inputs = [
                field.column.alias(name)
                for field, name in zip(late, self._rows.columns, strict=True)
            ]
            columns += late_rows.columns_of(inputs)
        shown = given.select(*columns)
        if vertex.function is not None:
            return shown
        kept = [column(name) for name in (*vertex.key, *self._vertex.window_columns)]
        computed = [
            sql.expr(text).alias(name)
            for name, text in zip(vertex.aggregate, self._around, strict=True)
        ]
        return shown.select(*kept, *computed, *late_rows.kept(late is not None))

    def _put(self, text: str, kind: types.DataType | None = None) -> int:
        """The position of a value in the rows; equal expressions are sent once."""
        if text not in self._at:
            if kind is None:
                kind = self._type(text)
            self._at[text] = len(self._columns)
            self._columns.append(self._parcel.put(sql.expr(text), kind))
        return self._at[text]

    def _put_key(self, name: str) -> SentColumn:
        return self._parcel.put(column(name), self._type(quoted(name)))

    def _put_inputs(self) -> range:
        first = len(self._columns)
        for field in self._rows.schema.fields:
            self._columns.append(self._parcel.put(column(field.name), field.dataType))
        return range(first, len(self._columns))

    def _put_time(self) -> int | None:
        """The position of the event time; rows without a time come last."""
        if self._time is None:
            return None
        kind = self._type(quoted(self._time))
        self._columns.append(self._parcel.put(column(self._time), kind, _NO_TIME))
        return len(self._columns) - 1

    def _put_number(self, field: str, text: str) -> int:
        kind = self._type(text)
        if not isinstance(kind, types.NumericType):
            raise VertexRefused(f"{text!r} is a {kind.simpleString().upper()}, not a number", field)
        return self._put(f"CAST({text} AS DOUBLE)")

    def _type(self, text: str) -> types.DataType:
        return self._rows.select(sql.expr(text).alias("x")).schema["x"].dataType

    def _time_column(self) -> str | None:
        vertex = self._vertex
        if not vertex.time:
            return None
        if vertex.is_time_implied and not vertex.needs_time:
            return vertex.time if vertex.time in self._rows.columns else None
        kind = self._type(quoted(vertex.time))
        if not is_time(kind):
            name = kind.simpleString().upper()
            raise VertexRefused(f"column {vertex.time!r} is a {name}, not a TIMESTAMP", "time")
        return vertex.time

    def _trigger(self) -> told.Trigger:
        match self._vertex.trigger:
            case ProcessingTimeTrigger(interval=interval):
                return told.EveryInterval(milliseconds(interval))
            case CountTrigger(count=count):
                return told.EveryRows(count)
            case DeltaTrigger(delta=delta, threshold=threshold):
                return told.WhenMoved(self._put_number("trigger.delta", delta), threshold)
            case EventTimeTrigger():
                return told.AtEnd()
        match self._vertex.window:
            case CountWindow(count=count, every=every):
                return told.EveryRows(every or count)
            case _:
                return told.AtEnd()

    def _evictor(self) -> told.Evictor | None:
        match self._vertex.evictor:
            case CountEvictor(count=count):
                return told.KeepRows(count)
            case TimeEvictor(within=within):
                assert self._time is not None
                return told.KeepTime(self._put(quoted(self._time)), milliseconds(within) * 1000)
            case DeltaEvictor(delta=delta, threshold=threshold):
                return told.KeepNear(self._put_number("evictor.delta", delta), threshold)
        match self._vertex.window:
            case CountWindow(count=count, every=every) if every is not None:
                return told.KeepRows(count)
            case _:
                return None

    def _folds(self) -> list[AggregatorSpec]:
        return [self._fold(call, kind) for call, kind in zip(
            self._calls, self._call_types(), strict=True)]  # fmt: skip

    def _fold(self, call: Call, result: types.DataType) -> AggregatorSpec:
        kinds = [self._type(text) for text in call.arguments]
        _check_types(call, kinds)
        compared = kinds[-1] if kinds else None
        return AggregatorSpec(
            function=call.function,
            columns=tuple(self._put(text) for text in call.arguments),
            is_distinct=call.is_distinct,
            where=None if call.where is None else self._put(call.where),
            ignores_nulls=call.ignores_nulls,
            is_float=isinstance(compared, types.FloatType | types.DoubleType),
            is_integral=isinstance(result, types.LongType),
            scale=result.scale if isinstance(result, types.DecimalType) else None,
        )

    def _call_types(self) -> list[types.DataType]:
        """The types of the results, as Spark determines them. Spark analyses the whole expressions
        too, so that it finds their faults."""
        keys = [column(name) for name in self._vertex.key]
        whole = [sql.expr(text) for text in self._vertex.aggregate.values()]
        calls = [
            sql.expr(call.text).alias(aggregate_calls.column_of(number))
            for number, call in enumerate(self._calls)
        ]
        if not calls:
            return []
        schema = self._rows.groupBy(*keys).agg(*calls, *whole).schema
        return [
            schema[aggregate_calls.column_of(number)].dataType for number in range(len(self._calls))
        ]

    def _call_columns(self) -> list[str]:
        return [aggregate_calls.column_of(number) for number in range(len(self._calls))]

    @property
    def _output(self) -> types.StructType:
        assert self._vertex.output is not None
        kind = types.DataType.fromDDL(self._vertex.output)
        assert isinstance(kind, types.StructType)
        return kind

    def _result_fields(self) -> list[_Field]:
        if self._vertex.function is not None:
            kinds = [field.dataType for field in self._output.fields]
        else:
            keys = [self._type(quoted(name)) for name in self._vertex.key]
            kinds = [*keys, *self._window_types(), *self._call_types()]
        return [_Field(f"r{at}", kind) for at, kind in enumerate(kinds)]

    def _window_types(self) -> list[types.DataType]:
        if self._time is not None and isinstance(self._vertex.window, TIME_WINDOWS):
            return [self._type(quoted(self._time))] * 2
        return [types.LongType()]

    def _function(self, inputs: range) -> told.Function | None:
        if self._vertex.function is None:
            return None
        try:
            functions.load(self._vertex.function)
        except functions.FunctionMissing as error:
            raise VertexRefused(str(error), "function") from error
        given, output = self._rows.schema.fields, self._output.fields
        return told.Function(
            vertex=self._vertex.id,
            reference=self._vertex.function,
            columns=tuple(inputs),
            names=tuple(field.name for field in given),
            times=_named(given, types.TimestampType, types.TimestampNTZType),
            dates=_named(given, types.DateType),
            key=self._vertex.key,
            output=tuple(field.name for field in output),
            output_times=_named(output, types.TimestampType, types.TimestampNTZType),
            output_dates=_named(output, types.DateType),
        )


def _check_types(call: Call, kinds: Sequence[types.DataType]) -> None:
    for at, kind in enumerate(kinds):
        name = kind.simpleString().upper()
        is_hashed = call.is_distinct or call.function == "collect_set"
        is_compared = call.function in _ORDERED and at == len(kinds) - 1
        if call.function in _NUMBERS and not isinstance(kind, types.NumericType):
            raise VertexRefused(f"{call.text!r} is of a {name}, not of a number", "aggregate")
        if (is_hashed or is_compared) and is_nested(kind):
            raise VertexRefused(
                f"{call.text!r} compares values of {name}, which this kind of window "
                "cannot: use a function of your own (function and output)",
                "aggregate",
            )


def _kind(vertex: Window) -> told.Kind:
    match vertex.window:
        case TumblingWindow(size=size):
            return told.Tumbling(milliseconds(size) * 1000, milliseconds(size) * 1000)
        case SlidingWindow(size=size, every=every):
            return told.Tumbling(milliseconds(size) * 1000, milliseconds(every) * 1000)
        case SessionWindow(gap=gap):
            return told.Session(milliseconds(gap) * 1000)
        case CountWindow(count=count, every=None):
            return told.Counted(count)
        case CountWindow() | GlobalWindow():
            return told.Endless()


def _named(fields: Sequence[types.StructField], *kinds: type[types.DataType]) -> frozenset[str]:
    return frozenset(field.name for field in fields if isinstance(field.dataType, kinds))
