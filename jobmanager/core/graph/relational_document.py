"""From the documents of flat_map, join, distinct, reduce and sql to the vertices.

Each is read by itself. Which side of a join is static follows from the sources behind it:
`settle` says it when all vertices are there.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from jobmanager.core.graph import sql_text
from jobmanager.core.graph.document_fields import Faults, Fields
from jobmanager.core.graph.inputs import Input
from jobmanager.core.graph.job_graph import FilesSource, Mode, Source, TableSource, Vertex
from jobmanager.core.graph.relational_vertices import (
    Distinct,
    FlatMap,
    Join,
    JoinType,
    Reduce,
    Sql,
    SqlState,
)
from jobmanager.core.ids import VertexId

KEYED_OPS = ("distinct", "reduce")
"""Those that have the job's parallelism whatever their inputs are."""


def _flat_map(fields: Fields, vertex_id: VertexId, inputs: tuple[Input, ...], mode: Mode) -> Vertex:
    names = fields.names("as", required=True)
    if len(names) > 2:
        fields.fault("as", "one name, or two for the key and the value of a map")
    keep = fields.names("keep") if fields.has("keep") else None
    for name in names:
        if name in (keep or ()):
            fields.fault("as", f"column {name!r} is kept already: name it otherwise")
    return FlatMap(vertex_id, inputs, fields.text("explode"), names, keep)


def _join(fields: Fields, vertex_id: VertexId, inputs: tuple[Input, ...], mode: Mode) -> Vertex:
    kind = fields.choice("type", JoinType, JoinType.INNER)
    on, where = fields.names("on"), fields.text("where", "") or None
    if bool(on) == bool(where):
        fields.fault(
            "on", "a join needs the columns of `on`, or a condition in `where`: one of them"
        )
    within = fields.duration("within", zero=True) if fields.has("within") else None
    return Join(vertex_id, _sides(fields, inputs), kind, on, where, within)


def _sides(fields: Fields, inputs: tuple[Input, ...]) -> tuple[Input, ...]:
    """The inputs, the left one first."""
    by_id = {one.vertex: one for one in inputs}
    if len(by_id) != 2:
        fields.raw("left"), fields.raw("right")
        return inputs
    names = list(by_id)
    left, right = (
        VertexId(fields.text(side, name)) for side, name in zip(_SIDES, names, strict=True)
    )
    for side, name in zip(_SIDES, (left, right), strict=True):
        if name not in by_id:
            fields.fault(
                side, f"{name!r} is not an input of this join: take one of {', '.join(names)}"
            )
            return inputs
    if left == right:
        fields.fault("right", f"both sides are {left!r}: name the other input")
        return inputs
    return by_id[left], by_id[right]


_SIDES = ("left", "right")


def _distinct(fields: Fields, vertex_id: VertexId, inputs: tuple[Input, ...], mode: Mode) -> Vertex:
    key = fields.names("key", required=True)
    if fields.has("key") and not key:
        fields.fault("key", "a distinct needs at least one column")
    within = fields.duration("within") if fields.has("within") else None
    return Distinct(vertex_id, inputs, key, within)


def _reduce(fields: Fields, vertex_id: VertexId, inputs: tuple[Input, ...], mode: Mode) -> Vertex:
    key, results = fields.names("key"), fields.expressions("aggregate")
    for column in results:
        if column in key:
            fields.fault("aggregate", f"column {column!r} comes out already: name it otherwise")
    return Reduce(vertex_id, inputs, key, results)


def _sql(fields: Fields, vertex_id: VertexId, inputs: tuple[Input, ...], mode: Mode) -> Vertex:
    return Sql(vertex_id, inputs, fields.text("query"))


Reader = Callable[[Fields, VertexId, tuple[Input, ...], Mode], Vertex]
READERS: Mapping[str, Reader] = {
    "flat_map": _flat_map,
    "join": _join,
    "distinct": _distinct,
    "reduce": _reduce,
    "sql": _sql,
}


def settle(vertices: Sequence[Vertex], faults: Faults, mode: Mode) -> tuple[Vertex, ...]:
    """The vertices, with the static inputs of joins and queries known. The shape is sound."""
    if mode is Mode.BATCH:
        return tuple(vertices)
    static = _Static(vertices)
    settled: list[Vertex] = []
    for vertex in vertices:
        if isinstance(vertex, Join) and len(vertex.inputs) == 2:
            settled.append(_settle_join(vertex, static))
        elif isinstance(vertex, Sql):
            settled.append(_settle_sql(vertex, static, faults))
        else:
            settled.append(vertex)
    return tuple(settled)


class _Static:
    """Which vertices have only sources behind them that can be read as a whole."""

    def __init__(self, vertices: Sequence[Vertex]) -> None:
        self._vertices = {vertex.id: vertex for vertex in vertices}
        self._known: dict[VertexId, bool] = {}

    def __contains__(self, vertex_id: VertexId) -> bool:
        if vertex_id not in self._known:
            vertex = self._vertices.get(vertex_id)
            self._known[vertex_id] = vertex is not None and self._is_static(vertex)
        return self._known[vertex_id]

    def _is_static(self, vertex: Vertex) -> bool:
        if isinstance(vertex, Source):
            return can_be_static(vertex)
        return all(one.vertex in self for one in vertex.inputs)


def can_be_static(source: Source) -> bool:
    match source.connector:
        case TableSource():
            return True
        case FilesSource(is_bounded=is_bounded):
            return is_bounded
        case _:
            return False


def _settle_join(join: Join, static: Collection[VertexId] | _Static) -> Join:
    """Without a time bound the side that has an end is static; if both have, the one whose
    rows need not come out by themselves.
    """
    if join.within is not None:
        return join
    sides = [side for side in (join.right, join.left) if side in static]
    if not sides:
        return join
    return replace(
        join, static=join.left if len(sides) == 2 and join.type is JoinType.RIGHT else sides[0]
    )


def _settle_sql(sql: Sql, static: _Static, faults: Faults) -> Sql:
    inputs = [one.vertex for one in sql.inputs]
    fixed = [one for one in inputs if one in static]
    if len(fixed) == len(inputs):
        fixed = fixed[1:]
    try:
        state = sql_text.state_of(sql.query, len(inputs) - len(fixed))
    except sql_text.TooMuch as error:
        faults.add(sql.id, "query", str(error))
        state = SqlState.NONE
    return replace(sql, state=state, static=tuple(fixed))
