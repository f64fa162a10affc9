"""From the documents of `iterate` and `delta_iterate` to vertices, and what batch alone can do."""

from collections.abc import Callable, Mapping

from jobmanager.core.graph.batch_vertices import DeltaIterate, Iterate
from jobmanager.core.graph.document_fields import Fields
from jobmanager.core.graph.graph_algorithms_document import graph, only_in_batch
from jobmanager.core.graph.inputs import Input
from jobmanager.core.graph.job_graph import Mode, Vertex
from jobmanager.core.graph.ml_document import ml
from jobmanager.core.ids import VertexId

MOST_ITERATIONS = 100_000
Reader = Callable[[Fields, VertexId, tuple[Input, ...], Mode], Vertex]
ReadBody = Callable[
    [Fields, tuple[Input, ...], Mode, tuple[str, ...]],
    tuple[tuple[Vertex, ...], tuple[VertexId, ...]],
]
"""Reads the field `body`. The ids of what comes out of it must be named by the caller, or none
are: then it gives those that nothing in the body uses.
"""


def readers(read_body: ReadBody) -> Mapping[str, Reader]:
    """The readers of these operators; `read_body` is the one for whole sub-graphs."""

    def iterate(
        fields: Fields, vertex_id: VertexId, inputs: tuple[Input, ...], mode: Mode
    ) -> Vertex:
        only_in_batch(fields, mode)
        body, results = read_body(fields, inputs, mode, ())
        if len(results) > 1:
            fields.fault(
                "body",
                f"a round has one result, and nothing uses {', '.join(results)}: "
                "put a union behind them, or drop all but one",
            )
        result = results[0] if results else vertex_id
        return Iterate(vertex_id, inputs, body, result, _rounds(fields), _until(fields))

    def delta_iterate(
        fields: Fields, vertex_id: VertexId, inputs: tuple[Input, ...], mode: Mode
    ) -> Vertex:
        only_in_batch(fields, mode)
        if len(inputs) < 2:
            fields.fault(
                "inputs", "a delta_iterate needs two inputs: the solution set, then the workset"
            )
        key = fields.names("key", required=True)
        if not key and isinstance(fields.raw("key"), list):
            fields.fault("key", "missing: the columns that tell the rows of the solution set apart")
        delta, workset = fields.text("delta"), fields.text("workset")
        body, _ = read_body(fields, inputs, mode, tuple(one for one in (delta, workset) if one))
        ids = (VertexId(delta), VertexId(workset))
        return DeltaIterate(vertex_id, inputs, body, key, *ids, _rounds(fields), _until(fields))

    return {"iterate": iterate, "delta_iterate": delta_iterate, "graph": graph, "ml": ml}


def _rounds(fields: Fields) -> int:
    return fields.integer("max_iterations", least=1, most=MOST_ITERATIONS) or 1


def _until(fields: Fields) -> str | None:
    return fields.text("until") if fields.has("until") else None
