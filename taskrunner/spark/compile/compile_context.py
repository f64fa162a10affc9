"""What is around a vertex while it is compiled, and how a family says what it compiles.

A module of `taskrunner.spark.compile` that compiles operators has a tuple `COMPILERS`;
`operator_compilers` puts them together.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from pyspark.sql import DataFrame

from jobmanager.core.graph.vertex import Vertex
from jobmanager.core.ids import VertexId

if TYPE_CHECKING:
    # Python workers import the modules of keyed functions, and this one with them: without
    # Spark ML, and what else only a driver needs
    from jobmanager.core.graph.iterations import Loop
    from jobmanager.core.graph.job_graph import JobGraph
    from jobmanager.core.graph.scripts import Script
    from jobmanager.core.graph.sources import Source
    from taskrunner.spark.compile.loops import Loops
    from taskrunner.spark.compile.models import Models

V = TypeVar("V", bound=Vertex)
RunScript = Callable[["Script"], DataFrame]
"""The rows of one query of a script."""
Body = Callable[[Sequence[DataFrame]], Callable[[VertexId], DataFrame]]
"""Given the rows of a loop's inputs: the rows of each vertex of its body."""


class ReadSource(Protocol):
    def __call__(self, source: "Source", *, is_static: bool = False) -> DataFrame:
        """Its rows; of one that is static as a whole, whatever the mode."""
        ...


@dataclass(frozen=True, slots=True)
class CompileContext:
    graph: "JobGraph"
    """The job's; inside of a loop with the vertices of its body."""
    is_static: bool
    """The vertex is read as a whole beside a stream."""
    within: str
    """The names of the loops that the vertex is in, each with a slash behind it."""
    read: ReadSource
    run_script: RunScript
    loops: "Loops"
    models: "Models"
    body: Callable[["Loop"], Body]

    def under_whole_name(self, vertex: V) -> V:
        """The vertex with the names of the loops it is in, too."""
        return replace(vertex, id=VertexId(self.within + vertex.id))


Compile = Callable[[V, Sequence[DataFrame], CompileContext], DataFrame]


@dataclass(frozen=True, slots=True)
class OperatorCompiler(Generic[V]):
    """How vertices of one class become DataFrames."""

    vertex: type[V]
    compile: Compile[V]
    """The rows of a vertex, from those of its inputs. What Spark refuses is turned into faults of
    the vertex by the caller.
    """
    field: Callable[[V], str] = lambda vertex: ""
    """The field that has the expressions, for Spark to complain of."""
    takes_inputs: bool = True
    """Without: what it computes reads its sources by itself."""
