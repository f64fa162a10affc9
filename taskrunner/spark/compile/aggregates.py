"""`aggregate`, `reduce` with aggregates, and `distinct` as DataFrames."""

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.window import Window as Over

from jobmanager.core.durations import milliseconds
from jobmanager.core.graph.aggregates import Aggregate, Distinct, Reduce
from taskrunner.core.invalid_vertex import InvalidVertex
from taskrunner.spark.compile.compile_context import CompileContext, OperatorCompiler
from taskrunner.spark.compile.frames import need_columns
from taskrunner.spark.compile.time_columns import DELAY, time_columns, which_time
from taskrunner.spark.session.column_names import column

_FIRST = "__headgate_first"


def results(aggregate: Mapping[str, str]) -> list[Column]:
    """The result columns of a field `aggregate`."""
    return [sql.expr(text).alias(name) for name, text in aggregate.items()]


def _aggregate(
    vertex: Aggregate, inputs: Sequence[DataFrame], context: CompileContext
) -> DataFrame:
    keys = [column(name) for name in vertex.key]
    return inputs[0].groupBy(*keys).agg(*results(vertex.aggregate))


def _distinct(vertex: Distinct, inputs: Sequence[DataFrame], context: CompileContext) -> DataFrame:
    """The first row of each key: in a stream by arrival, in a batch by time if there is a time."""
    [rows] = inputs
    need_columns(vertex.id, "key", vertex.key, rows)
    times = time_columns(rows)
    key = list(vertex.key)
    if not rows.isStreaming:
        if len(times) != 1:
            return rows.dropDuplicates(key)
        order = Over.partitionBy(*(column(name) for name in key)).orderBy(column(times[0]))
        numbered = rows.withColumn(_FIRST, sql.row_number().over(order))
        return numbered.where(column(_FIRST) == 1).drop(_FIRST)
    if vertex.within is None:
        return rows.dropDuplicates(key)
    if len(times) != 1:
        raise InvalidVertex(vertex.id, which_time(times), "within")
    # Spark remembers a key for the delay in the metadata of its time column: set it to `within`
    delay = rows.schema[times[0]].metadata[DELAY]
    remembering = _with_delay(rows, times[0], milliseconds(vertex.within))
    return _with_delay(remembering.dropDuplicatesWithinWatermark(key), times[0], delay)


def _with_delay(rows: DataFrame, time: str, delay_ms: int) -> DataFrame:
    metadata = {**rows.schema[time].metadata, DELAY: delay_ms}
    return rows.withMetadata(time, metadata)


COMPILERS = (
    OperatorCompiler(Aggregate, _aggregate, lambda vertex: "aggregate"),
    OperatorCompiler(Reduce, _aggregate, lambda vertex: "aggregate"),
    OperatorCompiler(Distinct, _distinct),
)
