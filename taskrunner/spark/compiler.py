"""From the vertices of a region to a Spark DataFrame, streaming or batch."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import assert_never

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from jobmanager.core.artifact_vertices import Script, ScriptSource, Spark
from jobmanager.core.durations import milliseconds
from jobmanager.core.graph import (
    KEYED,
    Aggregate,
    Filter,
    JobGraph,
    Map,
    SessionWindow,
    Sink,
    SlidingWindow,
    Source,
    TumblingWindow,
    Union,
    Vertex,
    Window,
)
from jobmanager.core.ids import VertexId
from jobmanager.core.inputs import Input, Ship
from jobmanager.core.plan import Region
from jobmanager.core.python_vertices import Cogroup, KeyedReduce, Process, Python
from taskrunner.functions import FunctionMissing
from taskrunner.spark import python_functions, spark_function
from taskrunner.spark.blame import faults_of
from taskrunner.spark.invalid_vertex import InvalidVertex
from taskrunner.spark.spark_function import FunctionRefused

__all__ = ["Compiler", "InvalidVertex", "ReadSource", "column"]
ReadSource = Callable[[Source], DataFrame]
RunScript = Callable[[Script], DataFrame]
"""The rows of one query of a script."""
_WINDOW = "__headgate_window"
_GROUP = "__headgate_group"


def _no_script(vertex: Script) -> DataFrame:
    raise InvalidVertex(vertex.id, "no script runs here")


class Compiler:
    """Compiles the vertices of one region. A vertex that is used twice is compiled once."""

    def __init__(
        self,
        graph: JobGraph,
        parallelism: int,
        read: ReadSource,
        script: RunScript = _no_script,
        given: Mapping[VertexId, DataFrame] | None = None,
    ) -> None:
        """`given` are vertices that are computed already."""
        self._graph = graph
        self._parallelism = parallelism
        self._read = read
        self._script = script
        self._compiled: dict[VertexId, DataFrame] = dict(given or {})

    def rows_of(self, region: Region) -> DataFrame:
        """The rows that the region's query computes. Everything behind its sinks is compiled."""
        into = [self._frame(sink) for sink in region.sinks]
        return into[0] if region.root in region.sinks else self._frame(region.root)

    def check(self, vertex: VertexId) -> None:
        """Raises `InvalidVertex` if Spark refuses the vertex, or one behind it."""
        source = self._graph.vertex(vertex)
        if isinstance(source, Source) and isinstance(source.connector, ScriptSource):
            return  # only the script reads it
        self._frame(vertex)

    def rows_after(self, root: VertexId, sink: Sink, rows: DataFrame) -> DataFrame:
        """The rows for a sink, from `rows` of the vertex where the region's sinks part."""
        rest = Compiler(
            self._graph, self._parallelism, self._read, self._script, given={root: rows}
        )
        return rest._frame(sink.id)

    def _frame(self, vertex_id: VertexId) -> DataFrame:
        if vertex_id not in self._compiled:
            vertex = self._graph.vertex(vertex_id)
            # a script reads its sources by itself
            own = isinstance(vertex, Script)
            inputs = [] if own else [self._input(vertex, one) for one in vertex.inputs]
            with _naming(vertex, inputs):
                self._compiled[vertex_id] = self._compile(vertex, inputs)
        return self._compiled[vertex_id]

    def _input(self, vertex: Vertex, one: Input) -> DataFrame:
        """The rows of one input, spread over subtasks as its edge says.

        A keyed vertex shuffles by its key itself, so no other shuffle is put before it.
        """
        frame = self._frame(one.vertex)
        if isinstance(vertex, KEYED):
            return frame
        ship = one.ship or (Ship.FORWARD if vertex.parallelism is None else Ship.REBALANCE)
        if ship is Ship.REBALANCE:
            return frame.repartition(vertex.parallelism or self._parallelism)
        return frame

    def _compile(self, vertex: Vertex, inputs: list[DataFrame]) -> DataFrame:
        match vertex:
            case Source():
                return self._read(vertex)
            case Map():
                return _map(vertex, inputs[0])
            case Filter():
                return inputs[0].where(vertex.where)
            case Union():
                return _union(inputs)
            case Aggregate():
                keys = [column(name) for name in vertex.key]
                return inputs[0].groupBy(*keys).agg(*_results(vertex))
            case Window():
                return _window(vertex, inputs[0])
            case Process():
                return python_functions.process(vertex, inputs[0], self._graph.max_parallelism)
            case KeyedReduce():
                return python_functions.reduce(vertex, inputs[0], self._graph.max_parallelism)
            case Cogroup():
                left, right = inputs
                return python_functions.cogroup(vertex, left, right, self._graph.max_parallelism)
            case Python():
                return python_functions.python(vertex, inputs[0])
            case Spark():
                return spark_function.call(vertex, inputs)
            case Script():
                return self._script(vertex)
            case Sink():
                return inputs[0]
            case _:
                assert_never(vertex)


def column(name: str) -> Column:
    """The column of that very name, whatever characters are in it."""
    return sql.col("`" + name.replace("`", "``") + "`")


@contextmanager
def _naming(vertex: Vertex, inputs: list[DataFrame]) -> Iterator[None]:
    try:
        yield
    except PySparkException as error:
        raise InvalidVertex.of(vertex.id, faults_of(vertex, inputs, error)) from error
    except (FunctionMissing, FunctionRefused) as error:
        raise InvalidVertex(vertex.id, str(error)) from error


def _map(vertex: Map, rows: DataFrame) -> DataFrame:
    if vertex.select is not None:
        return rows.select(*(sql.expr(text).alias(name) for name, text in vertex.select.items()))
    # at once: each expression sees the columns as they came in
    added = rows.withColumns({name: sql.expr(text) for name, text in vertex.add.items()})
    missing = [name for name in vertex.drop if name not in added.columns]
    if missing:
        raise InvalidVertex(
            vertex.id, f"drop: there is no column {', '.join(missing)}, only {added.columns}"
        )
    return added.drop(*vertex.drop)


def _union(inputs: list[DataFrame]) -> DataFrame:
    rows, *others = inputs
    for other in others:
        rows = rows.unionByName(other)
    return rows


def _results(vertex: Aggregate | Window) -> list[Column]:
    return [sql.expr(text).alias(name) for name, text in vertex.aggregate.items()]


def _window(vertex: Window, rows: DataFrame) -> DataFrame:
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
                # Spark wants a key for sessions: one that is 0 for every row, though not
                # a constant, which its optimiser would take away again
                keys = [sql.pmod(sql.hash(time), sql.lit(1)).alias(_GROUP)]
        case _:
            assert_never(vertex.window)
    grouped = rows.groupBy(window.alias(_WINDOW), *keys).agg(*_results(vertex))
    return grouped.select(
        *(column(name) for name in vertex.key),
        sql.col(f"{_WINDOW}.start").alias("window_start"),
        sql.col(f"{_WINDOW}.end").alias("window_end"),
        *(column(name) for name in vertex.aggregate),
    )


def _spark(duration_ms: int) -> str:
    return f"{duration_ms} milliseconds"
