"""Compiles the vertices of a region to a Spark DataFrame, streaming or batch.

The modules of the operator families compile single vertices (`operator_compilers`).
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from jobmanager.core.errors import Fault, PathNotAllowed
from jobmanager.core.graph.connectors.script import ScriptSource
from jobmanager.core.graph.inputs import Input, Ship
from jobmanager.core.graph.iterations import Loop
from jobmanager.core.graph.job_graph import JobGraph, Mode
from jobmanager.core.graph.scripts import Script
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.graph.sources import Source
from jobmanager.core.graph.vertex import Vertex
from jobmanager.core.ids import VertexId
from jobmanager.core.plan.job_plan import Region
from taskrunner.core import spark_messages
from taskrunner.core.invalid_vertex import InvalidVertex as InvalidVertex
from taskrunner.core.invalid_vertex import VertexRefused
from taskrunner.functions import FunctionMissing
from taskrunner.secret_lookup import SecretMissing
from taskrunner.spark.compile import late_rows
from taskrunner.spark.compile.compile_context import Body, CompileContext, RunScript
from taskrunner.spark.compile.compile_context import ReadSource as ReadSource
from taskrunner.spark.compile.loops import AnalysedLoops, Loops
from taskrunner.spark.compile.models import Models, NoModels
from taskrunner.spark.compile.operator_compilers import compiler_of
from taskrunner.spark.compile.refused_fields import faults_of


def _no_script(vertex: Script) -> DataFrame:
    raise InvalidVertex(vertex.id, "no script runs here")


class Compiler:
    """Compiles the vertices of one region. A vertex that is used twice is compiled once.

    By itself it computes nothing. With `RunningLoops` it runs what cannot be part of one Spark
    query: loops, and the fitting of models. Spark keeps the rows of the vertices in `shared`.
    `given` are vertices that are already computed: the inputs of the body of the loop `within`.
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
        """By vertex, and whether it is read completely, as the static side of a stream."""

    def rows_of(self, region: Region) -> DataFrame:
        """The rows that the region's query computes. All upstream vertices are compiled."""
        into = [self._frame(sink) for sink in region.sinks]
        return into[0] if region.root in region.sinks else self._frame(region.root)

    def check(self, vertex: VertexId) -> None:
        """Raises `InvalidVertex` if Spark refuses the vertex, or one upstream of it."""
        source = self._graph.vertex(vertex)
        if isinstance(source, Source) and isinstance(source.connector, ScriptSource):
            return  # only the script reads it
        self._frame(vertex)

    def rows_after(self, root: VertexId, sink: Sink, rows: DataFrame) -> DataFrame:
        """The rows for a sink, from `rows` of the vertex after which the region's sinks branch."""
        rest = self._with(self._graph, {root: rows}, self._within)
        rest._compiled |= {key: frame for key, frame in self._compiled.items() if key[1]}
        return rest._frame(sink.id)

    def _frame(self, vertex_id: VertexId, is_static: bool = False) -> DataFrame:
        is_static = is_static and self._graph.mode is Mode.STREAMING  # in batch everything is
        if (vertex_id, is_static) not in self._compiled:
            rows = self._compile(self._graph.vertex(vertex_id), is_static)
            if vertex_id in self._shared:
                [rows] = self._loops.reused([rows])
            self._compiled[vertex_id, is_static] = rows
        return self._compiled[vertex_id, is_static]

    def _compile(self, vertex: Vertex, is_static: bool) -> DataFrame:
        compiler = compiler_of(type(vertex))
        context = CompileContext(
            self._graph,
            is_static,
            self._within,
            self._read,
            self._script,
            self._loops,
            self._models,
            self._body,
        )
        streamed = vertex.streamed_inputs
        inputs = [
            self._input(vertex, one, is_static=is_static or one not in streamed)
            for one in vertex.inputs
            if compiler.takes_inputs
        ]
        with _naming(context.under_whole_name(vertex), inputs, compiler.field(vertex)):
            return compiler.compile(vertex, inputs, context)

    def _input(self, vertex: Vertex, one: Input, *, is_static: bool) -> DataFrame:
        """The rows of one input, distributed by the ship strategy of its edge.

        A keyed vertex shuffles by its key itself, so it gets no other shuffle; joins and SQL
        queries take their hints from the edge.
        """
        frame = late_rows.taken(self._frame(one.vertex, is_static), one.side)
        if vertex.ship_of(one) is Ship.REBALANCE:
            return frame.repartition(vertex.parallelism or self._parallelism)
        return frame

    def _body(self, loop: Loop) -> Body:
        ids = [one.vertex for one in loop.inputs]

        def given(frames: Sequence[DataFrame]) -> Callable[[VertexId], DataFrame]:
            body = replace(self._graph, vertices=loop.body)
            inputs = dict(zip(ids, frames, strict=True))
            return self._with(body, inputs, f"{self._within}{loop.id}/")._frame

        return given

    def _with(
        self, graph: JobGraph, given: Mapping[VertexId, DataFrame], within: str
    ) -> "Compiler":
        """A compiler of the same job with some vertices already computed."""
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


@contextmanager
def _naming(vertex: Vertex, inputs: Sequence[DataFrame], field: str) -> Iterator[None]:
    """Turns errors into faults of the vertex; Spark's errors into faults of its field, too."""
    try:
        yield
    except VertexRefused as error:
        raise InvalidVertex(vertex.id, error.message, error.field) from error
    except PySparkException as error:
        found = faults_of(vertex, inputs)
        told = [Fault(vertex.id, field, spark_messages.telling(str(error)))]
        raise InvalidVertex.of(vertex.id, found or told) from error
    except (FunctionMissing, SecretMissing) as error:
        raise InvalidVertex(vertex.id, str(error)) from error
    except PathNotAllowed as error:
        named = next(iter(vertex.places()), ("", ""))[0]
        raise InvalidVertex(vertex.id, str(error), named) from error
