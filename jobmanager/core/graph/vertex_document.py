"""Reads the vertices of a graph, or of the body of a loop, from their documents.

`read` reads a single vertex. Its result is a draft, since, for example, a window may leave its time
column to its source; `finish` completes the vertices and checks what only the whole graph tells:
watermarks, columns, and operators that cannot share a Spark query. Each operator defines what is
read, completed and checked (`operators`, `vertex`).
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jobmanager.core.graph import columns, graph_shape
from jobmanager.core.graph.document_fields import Faults, Fields
from jobmanager.core.graph.graph_view import GraphView
from jobmanager.core.graph.inputs import Input, Ship, Side
from jobmanager.core.graph.job_graph import Mode
from jobmanager.core.graph.operator_entry import Body, Header
from jobmanager.core.graph.operators import OPERATORS
from jobmanager.core.graph.vertex import UnknownOperator, Vertex
from jobmanager.core.ids import VertexId

MOST_LOOPS_DEEP = 5
MOST_VERTICES = 500


@dataclass(frozen=True, slots=True)
class VertexDraft:
    op: str
    """As written."""
    vertex: Vertex


def read(document: Mapping[str, Any], vertex_id: str, faults: Faults, mode: Mode) -> VertexDraft:
    fields = Fields(document, faults, vertex_id)
    fields.raw("id")
    op = fields.text("op")
    inputs = _inputs(fields)
    operator = OPERATORS.get(op)
    if operator is None:
        _refuse(op, fields)
        return VertexDraft(op, UnknownOperator(VertexId(vertex_id), inputs))
    parallelism = fields.integer("parallelism", None, least=1)
    if parallelism is not None and operator.is_always_keyed:
        fields.fault("parallelism", "a keyed vertex always has the job's parallelism: leave it out")
    if mode is Mode.STREAMING and operator.only_in_batch:
        fields.fault("op", f"{op} needs all its rows at once: set the job's mode to batch")

    def body(fields: Fields, results: tuple[str, ...]) -> Body:
        return _body(fields, inputs, mode, results)

    vertex = operator.read(fields, Header(VertexId(vertex_id), inputs, mode, body))
    fields.done()
    return VertexDraft(op, replace(vertex, parallelism=parallelism))


def finish(drafts: Sequence[VertexDraft], faults: Faults, mode: Mode) -> tuple[Vertex, ...]:
    """Complete and check the vertices of a graph whose shape was checked before."""
    vertices = [draft.vertex for draft in drafts]
    if mode is Mode.STREAMING:
        view = GraphView(vertices, mode)
        vertices = [vertex.with_static_inputs(view, faults) for vertex in vertices]
    view = GraphView(vertices, mode)
    _check_sides(view, faults)
    vertices = [vertex.completed(view, faults) for vertex in vertices]
    view = GraphView(vertices, mode)
    known = [vertex for vertex in vertices if not isinstance(vertex, UnknownOperator)]
    for vertex in known:
        vertex.check(view, faults)
    for vertex in known:
        _check_ships(vertex, faults, mode)
    columns.check(known, faults)
    return tuple(known)


def _refuse(op: str, fields: Fields) -> None:
    if op:
        close = difflib.get_close_matches(op, OPERATORS, n=1)
        hint = f": did you mean {close[0]!r}?" if close else f": use one of {', '.join(OPERATORS)}"
        fields.fault("op", f"there is no operator {op!r}{hint}")


def _inputs(fields: Fields) -> tuple[Input, ...]:
    value = fields.raw("inputs")
    if value is None:
        return ()
    if not isinstance(value, list):
        fields.fault("inputs", f"{value!r} is not a list of vertex ids")
        return ()
    inputs: list[Input] = []
    for position, one in enumerate(value):
        if isinstance(one, str):
            inputs.append(Input(VertexId(one)))
        elif isinstance(one, Mapping):
            inputs.append(_shipped_input(fields, position, one))
        else:
            fields.fault(f"inputs[{position}]", f"{one!r} is not a vertex id")
    names = [f"{one.vertex}.{one.side}" if one.side else one.vertex for one in inputs]
    for twice in sorted({name for name in names if names.count(name) > 1}):
        fields.fault("inputs", f"{twice!r} is named twice")
    return tuple(inputs)


def _shipped_input(fields: Fields, position: int, document: Mapping[str, Any]) -> Input:
    inner = fields.nested(f"inputs[{position}]", document)
    vertex = VertexId(inner.text("from"))
    ship = inner.choice("ship", Ship) if inner.has("ship") else None
    side = inner.choice("side", Side) if inner.has("side") else None
    inner.done()
    return Input(vertex, ship, side)


_WITH_SIDE = {
    Side.LATE: "only a tumbling, sliding or session window has",
    Side.BAD: "only a source with on_error: {side: bad} has",
}


def _check_sides(graph: GraphView, faults: Faults) -> None:
    """Note inputs that name a side which their vertex does not have."""
    for vertex in graph.vertices.values():
        for one in vertex.inputs:
            behind = graph.vertices.get(one.vertex)
            if one.side is None or behind is None or isinstance(behind, UnknownOperator):
                continue
            if not behind.has_side(one.side):
                faults.add(
                    vertex.id,
                    "inputs",
                    f"{one.vertex!r} has no side {one.side}: {_WITH_SIDE[one.side]}",
                )


def _check_ships(vertex: Vertex, faults: Faults, mode: Mode) -> None:
    """Note ship strategies that the vertex cannot honour; accepted strategies are visible in
    Spark's plan.
    """
    for position, one in enumerate(vertex.inputs):
        if one.ship is not None and (message := vertex.ship_fault(position, mode)):
            faults.add(vertex.id, "inputs", f"ship {one.ship} from {one.vertex!r}: {message}")


def _body(fields: Fields, inputs: tuple[Input, ...], mode: Mode, results: tuple[str, ...]) -> Body:
    """Read the field `body` of a loop: its vertices, and the ids of its results.

    A body is a list of vertices like that of the whole graph; faults name them `loop/vertex`. Their
    inputs are the loop's inputs, by the ids that these have outside, and one another. `results` are
    the ids that the loop itself names; none: the vertices that nothing in the body uses.
    """
    documents = fields.raw("body")
    if not isinstance(documents, list) or not documents:
        fields.fault("body", "missing: a list of vertices, each from a loop's input or another")
        return (), ()
    faults = fields.faults_within()
    if faults.depth > MOST_LOOPS_DEEP:
        fields.fault("body", f"loops can be nested {MOST_LOOPS_DEEP} deep at most")
        return (), ()
    if len(documents) > MOST_VERTICES:
        fields.fault("body", f"{len(documents)} are too many: {MOST_VERTICES} at most")
        return (), ()
    drafts: list[VertexDraft] = []
    shape = graph_shape.GraphShape()
    for position, document in enumerate(documents):
        if not isinstance(document, Mapping):
            fields.fault(f"body[{position}]", f"{document!r} is not a mapping")
            continue
        vertex_id = graph_shape.vertex_id(document, f"body[{position}]", faults)
        draft = read(document, vertex_id, faults, mode)
        shape.add(vertex_id, draft.op, draft.vertex.inputs)
        drafts.append(draft)
    given = [one.vertex for one in inputs]
    unused = graph_shape.unused(shape)
    if not graph_shape.check_body(shape, given, results, faults):
        return (), ()
    for draft in drafts:
        if fault := draft.vertex.fault_in_a_loop:
            faults.add(draft.vertex.id, *fault)
    return finish(drafts, faults, mode), tuple(VertexId(one) for one in results or unused)
