"""From the document of `graph` to its vertex: which algorithm, over which columns."""

import difflib
from collections.abc import Callable, Collection, Mapping
from typing import Any

from jobmanager.core.graph import parameters
from jobmanager.core.graph.batch_vertices import (
    Algorithm,
    ConnectedComponents,
    GraphAlgorithm,
    LabelPropagation,
    PageRank,
    ShortestPaths,
    Triangles,
    VertexUpdate,
)
from jobmanager.core.graph.document_fields import Fields
from jobmanager.core.graph.inputs import Input
from jobmanager.core.graph.job_graph import Mode, Vertex
from jobmanager.core.graph.parameters import Real, Text, Whole
from jobmanager.core.ids import VertexId

UNWEIGHTED = ("connected_components", "triangles")


def graph(fields: Fields, vertex_id: VertexId, inputs: tuple[Input, ...], mode: Mode) -> Vertex:
    only_in_batch(fields, mode)
    edges, vertices = _edges_and_vertices(fields, inputs)
    src, dst = fields.text("src", "src"), fields.text("dst", "dst")
    if src == dst:
        fields.fault("dst", f"both ends of an edge are {dst!r}: name the column of each")
    weight = fields.text("weight") if fields.has("weight") else None
    name, algorithm = _algorithm(fields)
    if weight is not None and name in UNWEIGHTED:
        fields.fault("weight", f"{name} does not weigh edges: leave it out")
    return GraphAlgorithm(vertex_id, inputs, edges, vertices, src, dst, weight, algorithm)


def only_in_batch(fields: Fields, mode: Mode) -> None:
    """Notes that the operator cannot be part of a stream."""
    if mode is Mode.STREAMING:
        op = fields.raw("op")
        fields.fault("op", f"{op} needs all its rows at once: set the job's mode to batch")


def one_named(fields: Fields, field: str, value: Any, known: Collection[str]) -> str | None:
    """The one key of `{name: {…}}`, which must be known; None: noted why not."""
    if not isinstance(value, Mapping) or len(value) != 1:
        fields.fault(field, f"{value!r} is not one of {', '.join(known)}, with its parameters")
        return None
    name = str(next(iter(value)))
    if name in known:
        return name
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {str(close[0])!r}?" if close else f"take one of {', '.join(known)}"
    fields.fault(field, f"there is no {field.partition('[')[0].rstrip('s')} {name!r}: {hint}")
    return None


def input_id(fields: Fields, field: str, inputs: tuple[Input, ...]) -> VertexId | None:
    """The input that the field names; None: it names none."""
    if not fields.has(field):
        return None
    name = fields.text(field)
    ids = [one.vertex for one in inputs]
    if name and name not in ids:
        fields.fault(field, f"{name!r} is not one of the inputs: {', '.join(ids) or 'none'}")
    return VertexId(name)


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
