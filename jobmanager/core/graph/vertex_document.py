"""From the document of one vertex to the vertex, and the checks that need its neighbours.

`read` takes one vertex by itself. What it makes is a draft, since a window may
leave its time column to the source behind it; `finish` settles that and checks
what only the whole graph tells: watermarks, and operators that cannot share a
Spark query.
"""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jobmanager.core.graph import (
    artifact_document,
    column_checks,
    python_document,
    relational_checks,
    relational_document,
    ship_checks,
)
from jobmanager.core.graph.artifact_vertices import ScriptSource
from jobmanager.core.graph.batch_document import readers as batch_readers
from jobmanager.core.graph.body_document import Body, read_body
from jobmanager.core.graph.connector_document import sink_connector, source_connector
from jobmanager.core.graph.document_fields import Faults, Fields
from jobmanager.core.graph.inputs import Input, Ship, Side
from jobmanager.core.graph.job_graph import (
    GROUPED,
    Aggregate,
    FileFormat,
    FilesSource,
    Filter,
    GeneratorSource,
    Map,
    Mode,
    OutputMode,
    PythonSource,
    Sink,
    SocketSource,
    Source,
    SourceConnector,
    Union,
    Vertex,
    Watermark,
)
from jobmanager.core.graph.python_vertices import Process
from jobmanager.core.graph.traits import emits_updates, streamed_inputs
from jobmanager.core.graph.window_document import check_sides, read_window, settle
from jobmanager.core.graph.window_vertices import Window
from jobmanager.core.ids import VertexId

KEYED_OPS = (
    "aggregate",
    "window",
    *python_document.KEYED_OPS,
    *relational_document.KEYED_OPS,
)


@dataclass(frozen=True, slots=True)
class Draft:
    id: str
    op: str
    inputs: tuple[Input, ...]
    vertex: Vertex | None
    """None where the operator itself is not one of ours."""


def read(document: Mapping[str, Any], vertex_id: str, faults: Faults, mode: Mode) -> Draft:
    fields = Fields(document, faults, vertex_id)
    fields.raw("id")
    op = fields.text("op")
    inputs = _inputs(fields)
    reader = _READERS.get(op)
    if reader is None:
        _refuse(op, fields)
        return Draft(vertex_id, op, inputs, None)
    parallelism = fields.integer("parallelism", None, least=1)
    if parallelism is not None and op in KEYED_OPS:
        fields.fault("parallelism", "a keyed vertex always has the job's parallelism: leave it out")
    vertex = reader(fields, VertexId(vertex_id), inputs, mode)
    fields.done()
    return Draft(vertex_id, op, inputs, replace(vertex, parallelism=parallelism))


def finish(drafts: Sequence[Draft], faults: Faults, mode: Mode) -> tuple[Vertex, ...]:
    """The vertices, with every window's time column settled. The shape is sound."""
    drafts = _settled(drafts, faults, mode)
    behind = _Behind(drafts)
    late_sides = check_sides([(d.id, d.inputs, d.vertex) for d in drafts], faults)
    finished: list[Vertex] = []
    for draft in drafts:
        vertex = draft.vertex
        if isinstance(vertex, Window):
            sources = [d.vertex for d in behind.of(vertex.id) if isinstance(d.vertex, Source)]
            vertex = settle(vertex, sources, late_sides, faults, mode)
        if isinstance(vertex, Process):
            sources = [d.vertex for d in behind.of(vertex.id) if isinstance(d.vertex, Source)]
            vertex = python_document.settle_time(vertex, sources, faults)
        if isinstance(vertex, Sink) and mode is Mode.STREAMING:
            _check_region(vertex, behind, faults)
        if vertex is not None:
            finished.append(vertex)
    relational_checks.check(finished, faults, mode)
    ship_checks.check(finished, faults, mode)
    column_checks.check(finished, faults)
    return tuple(finished)


def _settled(drafts: Sequence[Draft], faults: Faults, mode: Mode) -> list[Draft]:
    """The drafts, with the static inputs of joins and queries known."""
    read = [draft.vertex for draft in drafts if draft.vertex is not None]
    settled = {one.id: one for one in relational_document.settle(read, faults, mode)}
    return [replace(draft, vertex=settled.get(VertexId(draft.id))) for draft in drafts]


def _refuse(op: str, fields: Fields) -> None:
    if op:
        close = difflib.get_close_matches(op, _READERS, n=1)
        hint = f": did you mean {close[0]!r}?" if close else f": take one of {', '.join(_READERS)}"
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


def _source(fields: Fields, vertex_id: VertexId, inputs: tuple[Input, ...], mode: Mode) -> Vertex:
    connector = source_connector(fields)
    schema = _schema(fields, connector)
    watermark = None
    if fields.has("watermark"):
        inner = fields.section("watermark")
        column, delay = inner.text("column"), inner.duration("delay", "0s", zero=True)
        inner.done()
        watermark = Watermark(column, delay) if delay is not None else None
    stand_in = connector or GeneratorSource(1, None, {})
    return Source(vertex_id, stand_in, schema, watermark, fields.settings("options"))


def _schema(fields: Fields, connector: SourceConnector | None) -> str | None:
    """Spark DDL; None where the connector says its columns."""
    match connector:
        case GeneratorSource():
            if fields.has("schema"):
                fields.fault("schema", "a generator's columns are its schema: leave this out")
            return None
        case SocketSource():
            if fields.has("schema"):
                fields.fault("schema", "a socket gives lines in a column `value`: leave this out")
            return None
        case ScriptSource():
            return None
        case None | PythonSource() | FilesSource(format=FileFormat.TEXT):
            return fields.text("schema", "") or None
        case _:
            return fields.text("schema")


def _map(fields: Fields, vertex_id: VertexId, inputs: tuple[Input, ...], mode: Mode) -> Vertex:
    if fields.has("select"):
        for other in ("add", "drop"):
            if fields.has(other):
                fields.fault(other, f"select names every column that comes out: drop {other!r}")
        return Map(vertex_id, inputs, fields.expressions("select"))
    add, drop = fields.expressions("add", required=False), fields.names("drop")
    if not add and not drop:
        fields.fault("select", "missing: a map needs select, add or drop")
    return Map(vertex_id, inputs, None, add, drop)


def _filter(fields: Fields, vertex_id: VertexId, inputs: tuple[Input, ...], mode: Mode) -> Vertex:
    return Filter(vertex_id, inputs, fields.text("where"))


def _union(fields: Fields, vertex_id: VertexId, inputs: tuple[Input, ...], mode: Mode) -> Vertex:
    return Union(vertex_id, inputs)


def _aggregate(
    fields: Fields, vertex_id: VertexId, inputs: tuple[Input, ...], mode: Mode
) -> Vertex:
    key, results = fields.names("key"), fields.expressions("aggregate")
    _check_results(fields, key, results)
    return Aggregate(vertex_id, inputs, key, results)


def _check_results(fields: Fields, taken: Sequence[str], results: Mapping[str, str]) -> None:
    for column in results:
        if column in taken:
            fields.fault("aggregate", f"column {column!r} comes out already: name it otherwise")


def _sink(fields: Fields, vertex_id: VertexId, inputs: tuple[Input, ...], mode: Mode) -> Vertex:
    connector = sink_connector(fields)
    chosen = fields.choice("mode", OutputMode) if fields.has("mode") else None
    return Sink(vertex_id, inputs, connector, fields.settings("options"), mode=chosen)


def _reduce(fields: Fields, vertex_id: VertexId, inputs: tuple[Input, ...], mode: Mode) -> Vertex:
    """By a function of the user's, or by aggregates."""
    if fields.has("function") and fields.has("aggregate"):
        fields.fault("function", "a reduce has a function or an aggregate, not both")
    if fields.has("function"):
        return python_document.READERS["reduce"](fields, vertex_id, inputs, mode)
    return relational_document.READERS["reduce"](fields, vertex_id, inputs, mode)


def _body(fields: Fields, inputs: tuple[Input, ...], mode: Mode, results: tuple[str, ...]) -> Body:
    return read_body(fields, inputs, mode, results, read, finish)


_Reader = Callable[[Fields, VertexId, tuple[Input, ...], Mode], Vertex]
_READERS: Mapping[str, _Reader] = {
    "source": _source,
    "map": _map,
    "filter": _filter,
    "union": _union,
    "aggregate": _aggregate,
    "window": read_window,
    "sink": _sink,
    **relational_document.READERS,
    **artifact_document.READERS,
    **python_document.READERS,
    "reduce": _reduce,
    **batch_readers(_body),
}


class _Behind:
    """The drafts that a vertex's rows come through, itself included."""

    def __init__(self, drafts: Sequence[Draft]) -> None:
        self._drafts = {draft.id: draft for draft in drafts}

    def of(self, vertex_id: str) -> list[Draft]:
        found: dict[str, Draft] = {}
        ahead = [vertex_id]
        while ahead:
            draft = self._drafts.get(ahead.pop())  # None: the input of a loop, in its body
            if draft is not None and draft.id not in found:
                found[draft.id] = draft
                streamed = streamed_inputs(draft.vertex) if draft.vertex else draft.inputs
                ahead.extend(one.vertex for one in streamed)
        return list(found.values())


def _check_region(sink: Sink, behind: _Behind, faults: Faults) -> None:
    """Spark gives a query one output mode, and update mode one aggregation."""
    vertices = [draft.vertex for draft in behind.of(sink.id)]
    aggregates = sorted(v.id for v in vertices if v is not None and emits_updates(v))
    windows = sorted(v.id for v in vertices if isinstance(v, Window))
    if aggregates and windows:
        faults.add(
            sink.id,
            "inputs",
            f"aggregate {aggregates[0]!r} emits updates and window {windows[0]!r} emits once: "
            "a streaming query cannot do both, give each a sink of its own",
        )
    groups = sorted(v.id for v in vertices if isinstance(v, GROUPED))
    if aggregates and groups:
        faults.add(
            sink.id,
            "inputs",
            f"aggregate {aggregates[0]!r} emits updates, and Spark cannot run {groups[0]!r} in one "
            "streaming query with it: give each a sink of its own, or aggregate in the function",
        )
    for window in windows:
        for draft in behind.of(window):
            if draft.id != window and isinstance(draft.vertex, Window):
                faults.add(
                    window,
                    "inputs",
                    f"the windows of {draft.id!r} carry no watermark: Spark cannot put them into "
                    "windows again in one streaming query",
                )
    for aggregate in aggregates:
        for draft in behind.of(aggregate):
            if draft.id in aggregates and draft.id != aggregate:
                faults.add(
                    aggregate,
                    "inputs",
                    f"Spark cannot aggregate the updates of {draft.id!r} in one streaming query",
                )
