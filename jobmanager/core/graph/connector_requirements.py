"""The connector packages that a graph needs, each with the vertices that need it."""

from collections.abc import Iterator

from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.graph.sources import Source


def requirements(graph: JobGraph) -> Iterator[tuple[str, str]]:
    """Yield vertex and package, in the order of the graph."""
    for vertex in graph.every_vertex():
        if isinstance(vertex, Source | Sink):
            for package in vertex.connector.requires:
                yield vertex.id, package


def required_packages(graph: JobGraph) -> frozenset[str]:
    return frozenset(package for _, package in requirements(graph))
