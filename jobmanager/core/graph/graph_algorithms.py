"""The operator `graph`: an algorithm over the vertices and edges of a graph, in rows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from jobmanager.core.graph import parameters
from jobmanager.core.graph.document_fields import Fields
from jobmanager.core.graph.inputs import Input
from jobmanager.core.graph.operator_entry import Arity, Header, Operator
from jobmanager.core.graph.parameters import Real, Text, Whole, input_id, one_named
from jobmanager.core.graph.vertex import Vertex
from jobmanager.core.ids import VertexId

UNWEIGHTED = ("connected_components", "triangles")


@dataclass(frozen=True, slots=True)
class PageRank:
    damping: float
    max_iterations: int
    tolerance: float
    """Tolerance for the mean change of a rank in a round, as in networkx."""


@dataclass(frozen=True, slots=True)
class ConnectedComponents:
    pass


@dataclass(frozen=True, slots=True)
class ShortestPaths:
    sources: tuple[str | int | float, ...]


@dataclass(frozen=True, slots=True)
class LabelPropagation:
    max_iterations: int


@dataclass(frozen=True, slots=True)
class Triangles:
    pass


@dataclass(frozen=True, slots=True)
class VertexUpdate:
    """The vertex-centric loop, each part in Spark SQL."""

    initial: str
    """A vertex's first value."""
    message: str
    """The message along an edge, computed from the value of its source; NULL: no message."""
    combine: str
    """An aggregate over the messages to a vertex."""
    update: str
    """A vertex's next value, from its value and the combined message; NULL if there was no
    message.
    """
    max_iterations: int


Algorithm = (
    PageRank | ConnectedComponents | ShortestPaths | LabelPropagation | Triangles | VertexUpdate
)


@dataclass(frozen=True, slots=True)
class GraphAlgorithm(Vertex):
    op: ClassVar[str] = "graph"
    edges: VertexId
    vertices: VertexId | None
    """The input with the vertices; None: those that edges name."""
    src: str
    dst: str
    weight: str | None
    """None: every edge has the weight 1."""
    algorithm: Algorithm


def _read(fields: Fields, header: Header) -> GraphAlgorithm:
    edges, vertices = _edges_and_vertices(fields, header.inputs)
    src, dst = fields.text("src", "src"), fields.text("dst", "dst")
    if src == dst:
        fields.fault("dst", f"both ends of an edge are {dst!r}: name the column of each")
    weight = fields.text("weight") if fields.has("weight") else None
    name, algorithm = _algorithm(fields)
    if weight is not None and name in UNWEIGHTED:
        fields.fault("weight", f"{name} does not weigh edges: leave it out")
    return GraphAlgorithm(header.id, header.inputs, edges, vertices, src, dst, weight, algorithm)


def _edges_and_vertices(
    fields: Fields, inputs: tuple[Input, ...]
) -> tuple[VertexId, VertexId | None]:
    edges, vertices = input_id(fields, "edges", inputs), input_id(fields, "vertices", inputs)
    if edges is None and len(inputs) == 1:
        edges = inputs[0].vertex
    if edges is None:
        fields.fault("edges", "missing: which of the inputs has the edges")
    if edges is not None and edges == vertices:
        fields.fault("vertices", f"{vertices!r} has the edges: vertices are another input")
    unused = [one.vertex for one in inputs if one.vertex not in (edges, vertices)]
    if edges is not None and unused:
        fields.fault("inputs", f"neither edges nor vertices: {', '.join(unused)}")
    return edges or VertexId(""), vertices


def _algorithm(fields: Fields) -> tuple[str, Algorithm]:
    value = fields.raw("algorithm")
    if value is None:
        fields.fault("algorithm", f"missing: one of {', '.join(_ALGORITHMS)}, with its parameters")
        return "", Triangles()
    name = one_named(fields, "algorithm", value, _ALGORITHMS)
    if name is None:
        return "", Triangles()
    outer = fields.nested("algorithm", value)
    inner = outer.section(name)
    algorithm = _ALGORITHMS[name](inner)
    inner.done()
    return name, algorithm


def _page_rank(fields: Fields) -> Algorithm:
    return PageRank(
        **parameters.read(
            fields,
            [Real("damping", 0.85, 0, 1), Whole("max_iterations", 100), Real("tolerance", 1e-6)],
        )
    )


def _shortest_paths(fields: Fields) -> Algorithm:
    value = fields.raw("from")
    listed = value if isinstance(value, list) else [value]
    ids = tuple(one for one in listed if isinstance(one, str | int | float))
    if not listed or value is None:
        fields.fault("from", "missing: the id of the vertex that paths begin at, or a list of ids")
    elif len(ids) != len(listed):
        fields.fault("from", f"{value!r} is not the id of a vertex, nor a list of ids")
    return ShortestPaths(ids)


def _label_propagation(fields: Fields) -> Algorithm:
    return LabelPropagation(**parameters.read(fields, [Whole("max_iterations", 20)]))


def _vertex_update(fields: Fields) -> Algorithm:
    texts = [Text(name) for name in ("initial", "message", "combine", "update")]
    return VertexUpdate(**parameters.read(fields, [*texts, Whole("max_iterations", None)]))


_ALGORITHMS: Mapping[str, Callable[[Fields], Algorithm]] = {
    "pagerank": _page_rank,
    "connected_components": lambda fields: ConnectedComponents(),
    "sssp": _shortest_paths,
    "label_propagation": _label_propagation,
    "triangles": lambda fields: Triangles(),
    "vertex_update": _vertex_update,
}


OPERATORS = (Operator("graph", _read, Arity.SOME, only_in_batch=True),)
