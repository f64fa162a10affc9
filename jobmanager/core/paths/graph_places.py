"""The places that a job graph names, each with the vertex and the field that names it.

Paths are told by the vertices themselves. Options of sources and sinks and settings of Spark are
texts whose meaning Headgate does not know: whatever in their values looks like an absolute path or
a URI counts as one. Text of SQL and code of users cannot be looked through like that: SQL is kept
from reading files by a setting of Spark, and code may do what its runner may do.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from jobmanager.core.errors import Fault
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.graph.sources import Source
from jobmanager.core.graph.vertex import Vertex

_INSIDE = re.compile(
    r"(?:^|(?<=[\s,;:=|\"'\[({]))"
    r"((?:[A-Za-z][A-Za-z0-9+.-]*:)?/+[^\s,;:\"'\])}/][^\s,;:\"'\])}]*)"
)
"""A path or URI inside of a value, such as in a list of jars or an option of a JVM."""


@dataclass(frozen=True, slots=True)
class NamedPlace:
    vertex: str | None
    """None: the graph itself."""
    field: str
    text: str


def places_in(graph: JobGraph) -> Iterator[NamedPlace]:
    """Every place that the graph names, also in the bodies of loops."""
    for name, vertex in _vertices(graph.vertices, ""):
        for field, text in vertex.places():
            yield NamedPlace(name, field, text)
        if isinstance(vertex, Source | Sink):
            for option, value in vertex.options.items():
                yield from _inside(name, f"options.{option}", value)
    for setting, value in graph.spark.items():
        yield from _inside(None, f"spark.{setting}", value)


def option_faults(graph: JobGraph) -> list[Fault]:
    """The options that would lead a connector elsewhere than the vertex's own fields say. What
    options mean to a connector of the user's, only the connector knows.
    """
    return [
        Fault(name, f"options.{option}", message)
        for name, vertex in _vertices(graph.vertices, "")
        if isinstance(vertex, Source | Sink)
        for option, value in vertex.options.items()
        if (message := vertex.connector.option_fault(option, value))
    ]


def _inside(vertex: str | None, field: str, value: str) -> Iterator[NamedPlace]:
    for place in _INSIDE.findall(value):
        yield NamedPlace(vertex, field, place)
    if ".." in re.split(r"[/\\]", value):
        yield NamedPlace(vertex, field, value)


def _vertices(vertices: tuple[Vertex, ...], within: str) -> Iterator[tuple[str, Vertex]]:
    """Each vertex under the name that faults have, such as `loop/vertex`."""
    for vertex in vertices:
        yield within + vertex.id, vertex
        yield from _vertices(vertex.inner_vertices, f"{within}{vertex.id}/")
