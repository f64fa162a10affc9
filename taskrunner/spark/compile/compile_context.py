"""The context in which a vertex is compiled, and the entry of an operator's compiler.

A module of `taskrunner.spark.compile` that compiles operators has a tuple `COMPILERS`;
`operator_compilers` collects them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from pyspark.sql import DataFrame

from jobmanager.core.graph.vertex import Vertex
from jobmanager.core.ids import VertexId

if TYPE_CHECKING:
    # Python workers import the modules of keyed functions, and this module with them: without
    # Spark ML and other modules that only a driver needs
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
"""Computes the rows of each vertex of a loop's body from the rows of the loop's inputs."""


class ReadSource(Protocol):
    def __call__(self, source: "Source", *, is_static: bool = False) -> DataFrame:
        """The rows of the source; of a static source all rows, whatever the mode."""
        ...


@dataclass(frozen=True, slots=True)
class CompileContext:
    graph: "JobGraph"
    """The job's graph; inside a loop with the vertices of its body."""
    is_static: bool
    """Whether the vertex is read completely, as the static side of a stream."""
    within: str
    """The names of the loops that contain the vertex, each followed by a slash."""
    read: ReadSource
    run_script: RunScript
    loops: "Loops"
    models: "Models"
    body: Callable[["Loop"], Body]

    def under_whole_name(self, vertex: V) -> V:
        """The name of the vertex with the names of the loops that contain it."""
        return replace(vertex, id=VertexId(self.within + vertex.id))


Compile = Callable[[V, Sequence[DataFrame], CompileContext], DataFrame]


@dataclass(frozen=True, slots=True)
class OperatorCompiler(Generic[V]):
    """The compiler of one class of vertices."""

    vertex: type[V]
    compile: Compile[V]
    """Computes the rows of a vertex from those of its inputs. The caller turns Spark's errors into
    faults of the vertex.
    """
    field: Callable[[V], str] = lambda vertex: ""
    """The field with the expressions, which Spark's errors are attributed to."""
    takes_inputs: bool = True
    """False: the vertex reads its sources itself."""
