"""The columns that come out of a vertex, as far as the graph alone tells."""

from collections.abc import Callable, Mapping, Sequence

from jobmanager.core.graph import spark_ddl
from jobmanager.core.graph.inputs import Input
from jobmanager.core.graph.job_graph import (
    Aggregate,
    FileFormat,
    FilesSource,
    Filter,
    GeneratorSource,
    Map,
    SocketSource,
    Source,
    Union,
    Vertex,
    Window,
)
from jobmanager.core.graph.relational_vertices import ONLY_LEFT, Distinct, FlatMap, Join, Reduce
from jobmanager.core.ids import VertexId

Columns = tuple[str, ...]


def known_columns(vertices: Sequence[Vertex]) -> dict[VertexId, Columns | None]:
    """The columns of each vertex, in their order; None: only Spark can tell."""
    by_id = {vertex.id: vertex for vertex in vertices}
    found: dict[VertexId, Columns | None] = {}

    def columns(vertex_id: VertexId) -> Columns | None:
        if vertex_id not in found:
            found[vertex_id] = _columns(by_id[vertex_id], into) if vertex_id in by_id else None
        return found[vertex_id]

    def into(vertex: Vertex, at: int) -> Columns | None:
        one = vertex.inputs[at]
        source = by_id.get(one.vertex)
        if one.side is not None and source is not None:
            return into(source, 0) if source.inputs else None
        return columns(one.vertex)

    for vertex in vertices:
        columns(vertex.id)
    return found


def columns_into(
    one: Input, vertices: Sequence[Vertex], known: Mapping[VertexId, Columns | None]
) -> Columns | None:
    """The columns of an input. The late rows of a window have those that went into it."""
    while one.side is not None:
        inputs = next(vertex for vertex in vertices if vertex.id == one.vertex).inputs
        if not inputs:
            return None  # a fault of its own
        one = inputs[0]
    return known.get(one.vertex)


def in_schema(ddl: str) -> Columns | None:
    """The names in a schema; None: it is none that is understood here."""
    try:
        return tuple(spark_ddl.column_names(ddl))
    except spark_ddl.InvalidDdl:
        return None


Lookup = Callable[[Vertex, int], Columns | None]
"""The columns of one of a vertex's inputs."""


def _columns(vertex: Vertex, of: Lookup) -> Columns | None:
    match vertex:
        case Source():
            return _of_source(vertex)
        case Map():
            return _of_map(vertex, of(vertex, 0))
        case Filter() | Distinct() | Union():
            return of(vertex, 0)
        case FlatMap():
            kept = of(vertex, 0) if vertex.keep is None else vertex.keep
            return None if kept is None else (*kept, *vertex.names)
        case Aggregate() | Reduce():
            return (*vertex.key, *vertex.aggregate)
        case Window(function=None):
            return (*vertex.key, *vertex.window_columns, *vertex.aggregate)
        case Join():
            left, right = (_place(vertex, side) for side in (vertex.left, vertex.right))
            return _of_join(vertex, of(vertex, left), of(vertex, right))
        case _:
            return _of_output(vertex)


def _of_source(source: Source) -> Columns | None:
    match source.connector:
        case GeneratorSource(columns=columns):
            return tuple(columns)
        case FilesSource(format=FileFormat.TEXT) if source.schema is None:
            return ("value",)
        case SocketSource():
            return None
        case _:
            return in_schema(source.schema) if source.schema else None


def _of_map(vertex: Map, before: Columns | None) -> Columns | None:
    if vertex.select is not None:
        return tuple(vertex.select)
    if before is None:
        return None
    added = (*before, *(name for name in vertex.add if name not in before))
    return tuple(name for name in added if name not in vertex.drop)


def _of_join(join: Join, left: Columns | None, right: Columns | None) -> Columns | None:
    if left is None or right is None:
        return None
    rest = [name for name in left if name not in join.on]
    if join.type not in ONLY_LEFT:
        rest += [name for name in right if name not in join.on]
    return (*join.on, *rest)


def _place(join: Join, vertex: VertexId) -> int:
    return next(at for at, one in enumerate(join.inputs) if one.vertex == vertex)


def _of_output(vertex: Vertex) -> Columns | None:
    """Of whatever says its own columns: with a schema in `output`."""
    output = getattr(vertex, "output", None)
    return in_schema(output) if isinstance(output, str) else None
