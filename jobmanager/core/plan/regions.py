"""Determines which sinks share a Spark query.

A Spark query has one output, and `foreachBatch` may write that to several places. So sinks with the
same upstream keyed vertices and the same mode, whose rows all come through one vertex after these,
are one region: the shared part is computed, and its state kept, once; the rest is computed for each
batch.

A region has the name of its first sink. Sinks that share no keyed vertex are regions of their own:
each fails and recovers by itself.

    bids ─▶ revenue ─┬─▶ large ─▶ alerts      root: revenue
                     └─▶ all                  sinks: alerts, all
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jobmanager.core.graph.job_graph import JobGraph, Mode
from jobmanager.core.graph.output_mode import OutputMode
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.graph.sources import Source
from jobmanager.core.ids import VertexId


@dataclass(frozen=True, slots=True)
class Query:
    """One Spark query."""

    root: VertexId
    """The vertex whose rows the query computes: the sink, or the last that its sinks share."""
    sinks: tuple[VertexId, ...]


def queries_of(graph: JobGraph) -> tuple[Query, ...]:
    """Return the queries of the graph, in the order of their first sinks."""
    return tuple(_queries(graph))


def query_of(graph: JobGraph, sink: VertexId) -> Query:
    """Return the query that writes to `sink`."""
    return next(one for one in queries_of(graph) if sink in one.sinks)


def output_mode_of(graph: JobGraph, sink: VertexId) -> OutputMode:
    """Return the output mode of a sink; a real-time query has no other than update."""
    if graph.execution.is_real_time:
        return OutputMode.UPDATE
    vertex = graph.vertex(sink)
    if isinstance(vertex, Sink) and vertex.mode is not None:
        return vertex.mode
    behind = [graph.vertex(one) for one in ancestors(graph, sink)]
    required = [one.required_output_mode for one in behind if one.required_output_mode]
    if required:
        return required[0]
    updates = any(one.emits_updates for one in behind)
    return OutputMode.UPDATE if updates else OutputMode.APPEND


def ancestors(
    graph: JobGraph,
    vertex: VertexId,
    without: VertexId | None = None,
    *,
    with_static: bool = False,
) -> set[VertexId]:
    """Return the vertex and every upstream vertex that is reached without passing `without`; static
    inputs only if asked for.
    """
    found: set[VertexId] = set()
    ahead = [vertex]
    while ahead:
        one = ahead.pop()
        if one not in found and one != without:
            found.add(one)
            into = graph.vertex(one)
            inputs = into.inputs if with_static else into.streamed_inputs
            ahead.extend(each.vertex for each in inputs)
    return found


def _queries(graph: JobGraph) -> Iterator[Query]:
    groups: dict[object, list[VertexId]] = {}
    for vertex in graph.vertices:
        if isinstance(vertex, Sink):
            keyed = _keyed(graph, ancestors(graph, vertex.id))
            shares = graph.mode is Mode.STREAMING and bool(keyed)
            key = (keyed, output_mode_of(graph, vertex.id)) if shares else vertex.id
            groups.setdefault(key, []).append(vertex.id)
    for sinks in groups.values():
        root = _last_common(graph, sinks) if len(sinks) > 1 else sinks[0]
        if root is None:
            yield from (Query(sink, (sink,)) for sink in sinks)
        else:
            yield Query(root, tuple(sinks))


def _keyed(graph: JobGraph, vertices: set[VertexId]) -> frozenset[VertexId]:
    return frozenset(one for one in vertices if graph.vertex(one).is_keyed)


def _last_common(graph: JobGraph, sinks: Sequence[VertexId]) -> VertexId | None:
    """Return the last vertex, after all keyed vertices, that all rows of these sinks pass."""
    behind = [ancestors(graph, sink) for sink in sinks]
    common = set.intersection(*behind)
    cuts = [one for one in common if all(_is_cut(graph, sink, one) for sink in sinks)]
    # of two cuts, one is upstream of the other
    return max(cuts, key=lambda one: len(ancestors(graph, one)), default=None)


def _is_cut(graph: JobGraph, sink: VertexId, vertex: VertexId) -> bool:
    """Whether every row of the sink passes the vertex, and no keyed vertex after it."""
    beside = ancestors(graph, sink, without=vertex)
    found = [graph.vertex(one) for one in beside]
    return not any(isinstance(one, Source) or one.is_keyed for one in found)
