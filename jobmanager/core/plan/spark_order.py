"""The order in which Spark numbers the parts of a region's query.

Observed in Spark 4.3: both the sources of an `offsets` file and the stateful operators
(`state/<number>`) are numbered in pre-order from the query's last vertex, left input first.
A vertex that is reached along two paths is numbered twice. The static side of a join, which is
read as a whole, has no numbers.
"""

from collections.abc import Iterator

from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.graph.sources import Source
from jobmanager.core.graph.vertex import Vertex
from jobmanager.core.ids import VertexId
from jobmanager.core.plan.regions import query_of


def sources(graph: JobGraph, sink: VertexId) -> list[VertexId]:
    """Return the source of each line of an `offsets` file."""
    return [v.id for v in _pre_order(graph, _root(graph, sink)) if isinstance(v, Source)]


def keyed(graph: JobGraph, sink: VertexId) -> list[VertexId]:
    """Return the keyed vertex of each stateful operator of Spark."""
    return [
        v.id
        for v in _pre_order(graph, _root(graph, sink))
        if v.is_keyed
        for _ in range(v.spark_state_operators)
    ]


def _root(graph: JobGraph, sink: VertexId) -> Vertex:
    return graph.vertex(query_of(graph, sink).root)


def _pre_order(graph: JobGraph, vertex: Vertex) -> Iterator[Vertex]:
    yield vertex
    for one in vertex.streamed_inputs:
        yield from _pre_order(graph, graph.vertex(one.vertex))
