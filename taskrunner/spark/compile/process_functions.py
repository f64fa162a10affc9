"""`process`, `reduce` with a function, `cogroup` and `python`: a user's Python, as DataFrames."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType, TimestampType

from jobmanager.core.graph.clocks import Clock
from jobmanager.core.graph.process_functions import Cogroup, KeyedReduce, Process, Python
from taskrunner import functions
from taskrunner.api.process import ProcessFunction
from taskrunner.core.invalid_vertex import InvalidVertex
from taskrunner.keyed.arrow_batches import ArrowFunction
from taskrunner.keyed.cogroup import CogroupOperator
from taskrunner.keyed.operator import GroupOperator
from taskrunner.keyed.process import ProcessOperator
from taskrunner.keyed.reduce import ReduceOperator
from taskrunner.keyed.vertex_context import VertexContext
from taskrunner.spark.compile import accumulators, keyed_python
from taskrunner.spark.compile.compile_context import CompileContext, OperatorCompiler

_Vertex = Process | KeyedReduce | Cogroup | Python


def _process(vertex: Process, inputs: Sequence[DataFrame], context: CompileContext) -> DataFrame:
    [rows] = inputs
    function = _loaded(vertex)
    if not (isinstance(function, type) and issubclass(function, ProcessFunction)):
        raise InvalidVertex(
            vertex.id, f"function: {vertex.function!r} is no subclass of ProcessFunction"
        )
    _check_columns(vertex, rows, filter(None, [*vertex.key, vertex.time_column]))
    output = _output(vertex)
    make = partial(_process_operator, _subject(vertex, vertex.key, rows, output), vertex)
    return keyed_python.apply_by_group(
        rows,
        vertex.key,
        context.graph.max_parallelism,
        make,
        output,
        vertex.time,
        vertex.time_column,
        accumulators.reporter(rows.sparkSession, vertex.id),
    )


def _reduce(vertex: KeyedReduce, inputs: Sequence[DataFrame], context: CompileContext) -> DataFrame:
    [rows] = inputs
    _loaded(vertex)
    _check_columns(vertex, rows, vertex.key)
    rest = [field for field in rows.schema.fields if field.name not in vertex.key]
    output = StructType([rows.schema[name] for name in vertex.key] + rest)
    make = partial(_reduce_operator, _subject(vertex, vertex.key, rows, output), vertex.function)
    return keyed_python.apply_by_group(
        rows,
        vertex.key,
        context.graph.max_parallelism,
        make,
        output,
        Clock.NONE,
        None,
        accumulators.reporter(rows.sparkSession, vertex.id),
    )


def _cogroup(vertex: Cogroup, inputs: Sequence[DataFrame], context: CompileContext) -> DataFrame:
    left, right = inputs
    max_parallelism = context.graph.max_parallelism
    _loaded(vertex)
    for rows in (left, right):
        _check_columns(vertex, rows, vertex.key)
    output = _output(vertex)
    subject = _subject(vertex, vertex.key, left, output)
    calls = _CogroupCalls(
        partial(_cogroup_operator, subject, vertex.function, _times(right)),
        accumulators.reporter(left.sparkSession, vertex.id),
        keyed_python.Conversion.between(left.schema, output),
        keyed_python.Conversion.between(right.schema, output),
    )
    sides = [
        keyed_python.raw(rows)
        .withColumn(keyed_python.GROUP, keyed_python.key_group(vertex.key, max_parallelism))
        .groupBy(keyed_python.GROUP)
        for rows in (left, right)
    ]

    # a plain function: for a method Spark would count one argument too many
    def run(of_left: pd.DataFrame, of_right: pd.DataFrame) -> pd.DataFrame:
        return calls.run(of_left, of_right)

    results = sides[0].cogroup(sides[1]).applyInPandas(run, keyed_python.with_micros(output))
    return keyed_python.from_raw(results, output)


def _python(vertex: Python, inputs: Sequence[DataFrame], context: CompileContext) -> DataFrame:
    [rows] = inputs
    _loaded(vertex)
    output = _output(vertex)
    zone = rows.sparkSession.conf.get("spark.sql.session.timeZone")
    calls = _ArrowCalls(
        partial(
            _arrow_function, vertex.function, vertex.id, to_arrow_schema(output, timezone=zone)
        ),
        accumulators.reporter(rows.sparkSession, vertex.id),
    )

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return calls.run(batches)

    return rows.mapInArrow(run, output)


class _CogroupCalls:
    """The function that Spark calls for each key group with the rows of both sides."""

    def __init__(
        self,
        make: Callable[[], CogroupOperator],
        report: accumulators.Report,
        left: keyed_python.Conversion,
        right: keyed_python.Conversion,
    ) -> None:
        self._make = make
        self._report = report
        self._left = left
        self._right = right
        self._operator: CogroupOperator | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_operator": None}

    def run(self, left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
        if self._operator is None:
            self._operator = self._make()
        found = self._operator.take(self._left.into(left), self._right.into(right))
        self._report()
        return self._left.out_of(found)


class _ArrowCalls:
    def __init__(self, make: Callable[[], ArrowFunction], report: accumulators.Report) -> None:
        self._make = make
        self._report = report

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in self._make().over(batches):
            self._report()
            yield batch
        self._report()


def _process_operator(subject: VertexContext, vertex: Process) -> GroupOperator:
    function = functions.load(vertex.function)
    return ProcessOperator(function, subject, vertex.time, vertex.time_column)


def _reduce_operator(subject: VertexContext, function: str) -> GroupOperator:
    return ReduceOperator(functions.load(function), subject)


def _cogroup_operator(
    subject: VertexContext, function: str, aware_right: frozenset[str]
) -> CogroupOperator:
    return CogroupOperator(functions.load(function), subject, aware_right)


def _arrow_function(function: str, vertex: str, output: pa.Schema) -> ArrowFunction:
    return ArrowFunction(functions.load(function), vertex, function, output)


def _subject(
    vertex: _Vertex, key: tuple[str, ...], rows: DataFrame, output: StructType
) -> VertexContext:
    return VertexContext(
        vertex.id, vertex.function, key, to_arrow_schema(output, timezone="UTC"), _times(rows)
    )


def _output(vertex: Process | Cogroup | Python) -> StructType:
    found = StructType.fromDDL(vertex.output)
    if not isinstance(found, StructType):
        raise InvalidVertex(vertex.id, f"output: {vertex.output!r} is a type, not columns")
    return found


def _times(rows: DataFrame) -> frozenset[str]:
    return frozenset(one.name for one in rows.schema if isinstance(one.dataType, TimestampType))


def _loaded(vertex: _Vertex) -> Any:
    """Loads the function of the vertex, so that a missing one is reported before the job runs."""
    try:
        found = functions.load(vertex.function)
    except functions.FunctionMissing as error:
        raise InvalidVertex(vertex.id, f"function: {error}") from error
    if not callable(found):
        raise InvalidVertex(vertex.id, f"function: {vertex.function!r} cannot be called")
    return found


def _check_columns(vertex: _Vertex, rows: DataFrame, wanted: Iterable[str]) -> None:
    missing = [name for name in wanted if name not in rows.columns]
    if missing:
        raise InvalidVertex(
            vertex.id, f"there is no column {', '.join(missing)}, only {', '.join(rows.columns)}"
        )


COMPILERS = (
    OperatorCompiler(Process, _process),
    OperatorCompiler(KeyedReduce, _reduce),
    OperatorCompiler(Cogroup, _cogroup),
    OperatorCompiler(Python, _python),
)
