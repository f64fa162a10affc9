"""The output columns of vertices, as far as the graph alone tells, and faults about columns.

Spark finds the rest when it analyses the graph. Names are compared as in Spark, without regard to
case.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from jobmanager.core.graph import spark_ddl
from jobmanager.core.graph.document_fields import Faults
from jobmanager.core.graph.inputs import Input
from jobmanager.core.ids import VertexId

if TYPE_CHECKING:
    from jobmanager.core.graph.vertex import Vertex

Columns = tuple[str, ...]


def known_columns(vertices: "Sequence[Vertex]") -> dict[VertexId, Columns | None]:
    """Return the columns of each vertex, in order; None: only Spark can tell."""
    by_id = {vertex.id: vertex for vertex in vertices}
    found: dict[VertexId, Columns | None] = {}

    def columns(vertex_id: VertexId) -> Columns | None:
        if vertex_id not in found:
            vertex = by_id.get(vertex_id)
            found[vertex_id] = (
                None if vertex is None else vertex.columns_out([into(one) for one in vertex.inputs])
            )
        return found[vertex_id]

    def into(one: Input) -> Columns | None:
        source = by_id.get(one.vertex)
        if one.side is not None and source is not None:
            return into(source.inputs[0]) if source.inputs else None
        return columns(one.vertex)

    for vertex in vertices:
        columns(vertex.id)
    return found


def check(vertices: "Sequence[Vertex]", faults: Faults) -> None:
    """Note references to columns that do not exist, and output names that occur twice."""
    columns = known_columns(vertices)
    for vertex in vertices:
        into = [_columns_into(one, vertices, columns) for one in vertex.inputs]
        known = [one for one in into if one is not None]
        if len(known) == len(into):
            for field, message in vertex.column_faults(known):
                faults.add(vertex.id, field, message)


def _columns_into(
    one: Input, vertices: "Sequence[Vertex]", known: Mapping[VertexId, Columns | None]
) -> Columns | None:
    """Return the columns of an input. Late rows of a window have the columns of the window's
    input.
    """
    while one.side is not None:
        behind = next((vertex for vertex in vertices if vertex.id == one.vertex), None)
        if behind is None or not behind.inputs:
            return None  # a fault of its own
        one = behind.inputs[0]
    return known.get(one.vertex)


def in_schema(ddl: str) -> Columns | None:
    """Return the column names in a schema; None: the schema is not understood here."""
    try:
        return tuple(spark_ddl.column_names(ddl))
    except spark_ddl.InvalidDdl:
        return None


def missing_columns(
    wanted: Iterable[tuple[str, str]], columns: Columns
) -> Iterator[tuple[str, str]]:
    """Return field and message for each wanted column that does not exist."""
    for field, name in wanted:
        if missing([name], columns):
            yield field, no_column(name, columns)


def no_column(name: str, columns: Columns) -> str:
    return f"there is no column {name!r}, only {', '.join(columns)}"


def missing(names: Iterable[str], columns: Iterable[str]) -> list[str]:
    """Return the names that are not among the columns."""
    there = {name.lower() for name in columns}
    return [name for name in names if name.lower() not in there]


def shared(names: Iterable[str], columns: Iterable[str]) -> list[str]:
    """Return the names that are also among the columns."""
    there = {name.lower() for name in columns}
    return [name for name in names if name.lower() in there]
