"""`window` as a DataFrame: by Spark's own windows, or buffered in Python (`buffered_windows`)."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from jobmanager.core.durations import milliseconds
from jobmanager.core.graph.window_kinds import SessionWindow, SlidingWindow, TumblingWindow
from jobmanager.core.graph.windows import Window
from taskrunner.core.invalid_vertex import InvalidVertex
from taskrunner.spark.compile.aggregates import results
from taskrunner.spark.compile.compile_context import CompileContext, OperatorCompiler
from taskrunner.spark.session.column_names import column

_WINDOW = "__headgate_window"
_GROUP = "__headgate_group"


def _compile(vertex: Window, inputs: Sequence[DataFrame], context: CompileContext) -> DataFrame:
    if vertex.is_buffered:
        from taskrunner.spark.compile.buffered_windows import buffered_window  # with pandas

        return buffered_window(vertex, inputs[0], context.graph.max_parallelism)
    return _spark_window(vertex, inputs[0])


def _spark_window(vertex: Window, rows: DataFrame) -> DataFrame:
    time = column(vertex.time)
    keys = [column(name) for name in vertex.key]
    match vertex.window:
        case TumblingWindow(size=size):
            window = sql.window(time, _spark(milliseconds(size)))
        case SlidingWindow(size=size, every=every):
            window = sql.window(time, _spark(milliseconds(size)), _spark(milliseconds(every)))
        case SessionWindow(gap=gap):
            window = sql.session_window(time, _spark(milliseconds(gap)))
            if not keys:
                # Spark needs a key for sessions: an expression that is 0 for every row, but
                # not a constant, which its optimiser would remove
                keys = [sql.pmod(sql.hash(time), sql.lit(1)).alias(_GROUP)]
        case _:
            raise InvalidVertex(vertex.id, f"{vertex.window} is not one of Spark's windows")
    grouped = rows.groupBy(window.alias(_WINDOW), *keys).agg(*results(vertex.aggregate))
    return grouped.select(
        *(column(name) for name in vertex.key),
        sql.col(f"{_WINDOW}.start").alias("window_start"),
        sql.col(f"{_WINDOW}.end").alias("window_end"),
        *(column(name) for name in vertex.aggregate),
    )


def _spark(duration_ms: int) -> str:
    return f"{duration_ms} milliseconds"


COMPILERS = (OperatorCompiler(Window, _compile, lambda vertex: "aggregate"),)
