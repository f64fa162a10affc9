"""Reads a sub-graph: the `body` of a loop.

It is a list of vertices like that of the whole graph, read by the same readers; their faults
name `loop/vertex`. Its vertices take their rows from the loop's inputs, by the ids that those
have outside, and from one another.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jobmanager.core.graph import graph_shape
from jobmanager.core.graph.batch_vertices import Ml
from jobmanager.core.graph.document_fields import Faults, Fields
from jobmanager.core.graph.inputs import Input
from jobmanager.core.graph.job_graph import Mode, Vertex
from jobmanager.core.ids import VertexId

MOST_LOOPS_DEEP = 5
MOST_VERTICES = 500
ReadVertex = Callable[[Mapping[str, Any], str, Faults, Mode], Any]
Finish = Callable[[Sequence[Any], Faults, Mode], tuple[Vertex, ...]]
Body = tuple[tuple[Vertex, ...], tuple[VertexId, ...]]


def read_body(
    fields: Fields,
    inputs: tuple[Input, ...],
    mode: Mode,
    results: tuple[str, ...],
    read: ReadVertex,
    finish: Finish,
) -> Body:
    """The vertices of the field `body`, and the ids of what comes out of it.

    `results` are the ids that the loop itself names; none: whatever nothing in the body uses.
    """
    documents = fields.raw("body")
    if not isinstance(documents, list) or not documents:
        fields.fault("body", "missing: a list of vertices, each from a loop's input or another")
        return (), ()
    faults = fields.faults_within()
    if faults.depth > MOST_LOOPS_DEEP:
        fields.fault("body", f"loops are {MOST_LOOPS_DEEP} deep at most")
        return (), ()
    if len(documents) > MOST_VERTICES:
        fields.fault("body", f"{len(documents)} are too many: {MOST_VERTICES} at most")
        return (), ()
    drafts: list[Any] = []
    shape = graph_shape.Shape()
    for position, document in enumerate(documents):
        if not isinstance(document, Mapping):
            fields.fault(f"body[{position}]", f"{document!r} is not a mapping")
            continue
        vertex_id = graph_shape.vertex_id(document, f"body[{position}]", faults)
        draft = read(document, vertex_id, faults, mode)
        shape.add(draft.id, draft.op, draft.inputs)
        drafts.append(draft)
    given = [one.vertex for one in inputs]
    unused = graph_shape.unused(shape)
    if not graph_shape.check_body(shape, given, results, faults):
        return (), ()
    for draft in drafts:
        if isinstance(draft.vertex, Ml) and draft.vertex.save:
            faults.add(draft.id, "save", "every round would save another model: leave it out")
    return finish(drafts, faults, mode), tuple(VertexId(one) for one in results or unused)
