"""From the vertices of a region to a Spark DataFrame, streaming or batch."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol, TypeVar, assert_never

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from jobmanager.core.durations import milliseconds
from jobmanager.core.errors import Fault
from jobmanager.core.graph.artifact_vertices import Script, ScriptSource, Spark
from jobmanager.core.graph.batch_vertices import DeltaIterate, GraphAlgorithm, Iterate, Ml
from jobmanager.core.graph.inputs import Input, Ship
from jobmanager.core.graph.job_graph import (
    Aggregate,
    FileFormat,
    FilesSink,
    Filter,
    JobGraph,
    Map,
    Mode,
    Sink,
    Source,
    Union,
    Vertex,
)
from jobmanager.core.graph.python_vertices import Cogroup, KeyedReduce, Process, Python
from jobmanager.core.graph.relational_vertices import Distinct, FlatMap, Join, Reduce, Sql
from jobmanager.core.graph.traits import is_keyed, streamed_inputs
from jobmanager.core.graph.window_vertices import (
    SessionWindow,
    SlidingWindow,
    TumblingWindow,
    Window,
)
from jobmanager.core.ids import VertexId
from jobmanager.core.plan.job_plan import Region, ship_of
from jobmanager.core.plan.regions import ancestors
from taskrunner.core import spark_messages
from taskrunner.functions import FunctionMissing
from taskrunner.spark.compile import late_rows, python_functions, spark_function
from taskrunner.spark.compile.buffered_windows import Unusable, buffered_window
from taskrunner.spark.compile.frames import column as column
from taskrunner.spark.compile.invalid_vertex import InvalidVertex as InvalidVertex
from taskrunner.spark.compile.iterations import delta_iterate, iterate
from taskrunner.spark.compile.loops import AnalysedLoops, Loops
from taskrunner.spark.compile.ml import Models, NoModels, ml
from taskrunner.spark.compile.refused_fields import faults_of
from taskrunner.spark.compile.relational import distinct, flat_map, join
from taskrunner.spark.compile.spark_function import FunctionRefused
from taskrunner.spark.compile.sql_vertex import query
from taskrunner.spark.graphs.algorithms import graph

RunScript = Callable[[Script], DataFrame]
"""The rows of one query of a script."""
_Long = TypeVar("_Long", Iterate, DeltaIterate, GraphAlgorithm, Ml)
_WINDOW = "__headgate_window"
_GROUP = "__headgate_group"


class ReadSource(Protocol):
    def __call__(self, source: Source, *, is_static: bool = False) -> DataFrame:
        """Its rows; of one that is static as a whole, whatever the mode."""
        ...


def _no_script(vertex: Script) -> DataFrame:
    raise InvalidVertex(vertex.id, "no script runs here")


class Compiler:
    """Compiles the vertices of one region. A vertex that is used twice is compiled once.

    By itself it computes nothing. With `RunningLoops` it runs what cannot be one Spark query:
    loops, and the fitting of models. The rows of the vertices in `shared` are kept by Spark.
    `given` are vertices that are computed already: of the body of a loop, `within`, its inputs.
    """

    def __init__(
        self,
        graph: JobGraph,
        parallelism: int,
        read: ReadSource,
        *,
        script: RunScript = _no_script,
        loops: Loops | None = None,
        models: Models | None = None,
        shared: Collection[VertexId] = (),
        given: Mapping[VertexId, DataFrame] | None = None,
        within: str = "",
    ) -> None:
        self._graph = graph
        self._parallelism = parallelism
        self._read = read
        self._script = script
        self._loops = loops or AnalysedLoops()
        self._models = models or NoModels()
        self._shared = shared
        self._within = within
        self._compiled: dict[tuple[VertexId, bool], DataFrame] = {
            (vertex, False): rows for vertex, rows in (given or {}).items()
        }
        """By vertex, and whether it is read as a whole beside a stream."""

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
        rest = self._with(self._graph, {root: rows}, self._within)
        rest._compiled |= {key: frame for key, frame in self._compiled.items() if key[1]}
        return rest._frame(sink.id)

    def _frame(self, vertex_id: VertexId, is_static: bool = False) -> DataFrame:
        is_static = is_static and self._graph.mode is Mode.STREAMING  # in batch everything is
        if (vertex_id, is_static) not in self._compiled:
            vertex = self._graph.vertex(vertex_id)
            streamed = streamed_inputs(vertex)
            inputs = [
                self._input(vertex, one, is_static=is_static or one not in streamed)
                for one in vertex.inputs
                if not isinstance(vertex, Script)  # which reads its sources by itself
            ]
            with _naming(replace(vertex, id=VertexId(self._within + vertex_id)), inputs):
                rows = self._compile(vertex, inputs, is_static)
            if vertex_id in self._shared:
                [rows] = self._loops.reused([rows])
            self._compiled[vertex_id, is_static] = rows
        return self._compiled[vertex_id, is_static]

    def _input(self, vertex: Vertex, one: Input, *, is_static: bool) -> DataFrame:
        """The rows of one input, spread over subtasks as its edge says.

        A keyed vertex shuffles by its key itself, so no other shuffle is put before it; a join
        takes its hint from the edge.
        """
        frame = late_rows.taken(self._frame(one.vertex, is_static), one.side)
        match ship_of(vertex, one):
            case Ship.REBALANCE:
                return frame.repartition(vertex.parallelism or self._parallelism)
            case Ship.BROADCAST if isinstance(vertex, Sql):
                return frame.hint("broadcast")
            case _:
                return frame

    def _compile(self, vertex: Vertex, inputs: list[DataFrame], is_static: bool) -> DataFrame:
        match vertex:
            case Source():
                return self._read(vertex, is_static=is_static)
            case Map():
                return _map(vertex, inputs[0])
            case Filter():
                return inputs[0].where(vertex.where)
            case Union():
                return _union(inputs)
            case FlatMap():
                return flat_map(vertex, inputs[0])
            case Join():
                return join(vertex, *inputs)
            case Distinct():
                return distinct(vertex, inputs[0])
            case Sql():
                return self._query(vertex, inputs)
            case Aggregate() | Reduce():
                keys = [column(name) for name in vertex.key]
                return inputs[0].groupBy(*keys).agg(*_results(vertex))
            case Window(is_buffered=True):
                return buffered_window(vertex, inputs[0], self._graph.max_parallelism)
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
                _check_text(vertex, inputs[0])
                return inputs[0]
            case Iterate():
                return iterate(self._named(vertex), inputs, self._body(vertex), self._loops)
            case DeltaIterate():
                return delta_iterate(self._named(vertex), inputs, self._body(vertex), self._loops)
            case GraphAlgorithm():
                return graph(self._named(vertex), inputs, self._loops)
            case Ml():
                return ml(self._named(vertex), inputs, self._models)
            case _:
                assert_never(vertex)

    def _named(self, vertex: _Long) -> _Long:
        """The vertex under its whole name: that of the loop it is in, too."""
        return replace(vertex, id=VertexId(self._within + vertex.id))

    def _body(
        self, loop: Iterate | DeltaIterate
    ) -> Callable[[Sequence[DataFrame]], Callable[[VertexId], DataFrame]]:
        ids = [one.vertex for one in loop.inputs]

        def given(frames: Sequence[DataFrame]) -> Callable[[VertexId], DataFrame]:
            body = replace(self._graph, vertices=loop.body)
            inputs = dict(zip(ids, frames, strict=True))
            return self._with(body, inputs, f"{self._within}{loop.id}/")._frame

        return given

    def _with(
        self, graph: JobGraph, given: Mapping[VertexId, DataFrame], within: str
    ) -> "Compiler":
        """A compiler of the same job, to which some vertices are given."""
        return Compiler(
            graph,
            self._parallelism,
            self._read,
            script=self._script,
            loops=self._loops,
            models=self._models,
            given=given,
            within=within,
        )

    def _query(self, vertex: Sql, inputs: list[DataFrame]) -> DataFrame:
        named = {one.vertex: rows for one, rows in zip(vertex.inputs, inputs, strict=True)}
        with_state = [
            name
            for name in named
            if self._graph.mode is Mode.STREAMING
            and any(is_keyed(self._graph.vertex(one)) for one in ancestors(self._graph, name))
        ]
        return query(vertex, named, with_state)


@contextmanager
def _naming(vertex: Vertex, inputs: list[DataFrame]) -> Iterator[None]:
    try:
        yield
    except Unusable as error:
        raise InvalidVertex(vertex.id, error.message, error.field) from error
    except PySparkException as error:
        found = faults_of(vertex, inputs)
        told = [Fault(vertex.id, _field(vertex), spark_messages.telling(str(error)))]
        raise InvalidVertex.of(vertex.id, found or told) from error
    except (FunctionMissing, FunctionRefused) as error:
        raise InvalidVertex(vertex.id, str(error)) from error


def _field(vertex: Vertex) -> str:
    """The field that has the expressions, for Spark to complain of."""
    match vertex:
        case Map():
            return "add" if vertex.select is None else "select"
        case Filter():
            return "where"
        case Aggregate() | Reduce() | Window():
            return "aggregate"
        case Union():
            return "inputs"
        case _:
            return ""


def _check_text(sink: Sink, rows: DataFrame) -> None:
    """Spark would say it batch after batch."""
    files = sink.connector
    if isinstance(files, FilesSink) and files.format is FileFormat.TEXT:
        written = [one for one in rows.schema.fields if one.name not in files.partition_by]
        if [one.dataType.simpleString() for one in written] != ["string"]:
            found = ", ".join(f"{one.name} {one.dataType.simpleString()}" for one in written)
            raise InvalidVertex(
                sink.id, f"text is one column of texts, here come {found}", "format"
            )


def _map(vertex: Map, rows: DataFrame) -> DataFrame:
    if vertex.select is not None:
        return rows.select(*(sql.expr(text).alias(name) for name, text in vertex.select.items()))
    # at once: each expression sees the columns as they came in
    added = rows.withColumns({name: sql.expr(text) for name, text in vertex.add.items()})
    missing = [name for name in vertex.drop if name not in added.columns]
    if missing:
        raise InvalidVertex(
            vertex.id, f"there is no column {', '.join(missing)}, only {added.columns}", "drop"
        )
    return added.drop(*vertex.drop)


def _union(inputs: list[DataFrame]) -> DataFrame:
    rows, *others = inputs
    for other in others:
        rows = rows.unionByName(other)
    return rows


def _results(vertex: Aggregate | Reduce | Window) -> list[Column]:
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
            raise InvalidVertex(vertex.id, f"{vertex.window} is not one of Spark's windows")
    grouped = rows.groupBy(window.alias(_WINDOW), *keys).agg(*_results(vertex))
    return grouped.select(
        *(column(name) for name in vertex.key),
        sql.col(f"{_WINDOW}.start").alias("window_start"),
        sql.col(f"{_WINDOW}.end").alias("window_end"),
        *(column(name) for name in vertex.aggregate),
    )


def _spark(duration_ms: int) -> str:
    return f"{duration_ms} milliseconds"
