"""The places that a job graph names, each with the vertex and the field that names it.

Paths are told by the vertices themselves. Options of sources and sinks and settings of Spark are
texts whose meaning Headgate does not know: whatever in their values looks like an absolute path or
a URI counts as one. Text of SQL and code of users cannot be looked through like that: SQL is kept
from reading files by a setting of Spark, and code may do what its runner may do.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from jobmanager.core.errors import Fault
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.graph.sinks import PythonSink, Sink
from jobmanager.core.graph.sources import PythonSource, Source
from jobmanager.core.graph.vertex import Vertex

_OF_SPARK = frozenset(["path", "paths", "__paths__"])
_ARCHIVE = "sourcearchivedir"
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
    """The options that would lead Spark's own connectors elsewhere than to the `path` of the
    vertex. What options mean to a connector of the user's, only the connector knows.
    """
    found = []
    for name, vertex in _vertices(graph.vertices, ""):
        for option, value in _options_of_spark(vertex).items():
            if option.lower() in _OF_SPARK:
                message = "the place is the vertex's own field `path`: leave this option out"
            elif option.lower() == _ARCHIVE and not value.startswith(("/", "file:")):
                message = f"{value!r} would be relative to the runner: name an absolute path"
            elif "." in option and not option.startswith(("parquet.", "orc.")):
                message = (
                    f"{option!r} is a setting of a file system, which could lead elsewhere: on a "
                    "server with allowed paths it is set for the whole server"
                )
            else:
                continue
            found.append(Fault(name, f"options.{option}", message))
    return found


def _options_of_spark(vertex: Vertex) -> Mapping[str, str]:
    if not isinstance(vertex, Source | Sink) or isinstance(
        vertex.connector, PythonSource | PythonSink
    ):
        return {}
    return vertex.options


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
