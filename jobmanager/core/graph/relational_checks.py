"""What joins, distinct rows and sinks ask of the graph around them, in a stream and in a batch."""

from collections.abc import Iterator, Mapping, Sequence

from jobmanager.core.graph.document_fields import Faults
from jobmanager.core.graph.job_graph import (
    FilesSink,
    FilesSource,
    Mode,
    OutputMode,
    Sink,
    SocketSource,
    Source,
    Vertex,
    Window,
    op_of,
)
from jobmanager.core.graph.relational_vertices import Distinct, Join, JoinType, Sql, SqlState
from jobmanager.core.graph.traits import emits_updates, is_keyed, streamed_inputs
from jobmanager.core.graph.window_vertices import SessionWindow
from jobmanager.core.ids import VertexId

_FOR_STATIC = {
    # the side that is static, to the types that Spark can do then
    "right": (JoinType.INNER, JoinType.LEFT, JoinType.LEFT_SEMI, JoinType.LEFT_ANTI),
    "left": (JoinType.INNER, JoinType.RIGHT),
}


def check(vertices: Sequence[Vertex], faults: Faults, mode: Mode) -> None:
    """Notes every fault. The shape is sound, and static inputs are settled."""
    graph = _Graph(vertices)
    for vertex in vertices:
        if isinstance(vertex, Join):
            _check_join(vertex, graph, faults, mode)
        if isinstance(vertex, Join | Distinct) and mode is Mode.STREAMING:
            _check_before(vertex, graph, faults)
        if isinstance(vertex, Distinct) and vertex.within and mode is Mode.STREAMING:
            _need_watermarks(vertex.id, graph.sources(vertex.id), faults)
        if isinstance(vertex, Sql) and vertex.state is SqlState.WINDOW:
            _need_watermarks(vertex.id, graph.sources(vertex.id), faults)
        if isinstance(vertex, Join | Sql) and vertex.parallelism and is_keyed(vertex):
            message = "a keyed vertex always has the job's parallelism: leave it out"
            faults.add(vertex.id, "parallelism", message)
        if isinstance(vertex, Sink):
            _check_mode(vertex, graph, faults, mode)
    _check_sources(graph, faults, mode)


class _Graph:
    """The vertices by id, and the streams behind each."""

    def __init__(self, vertices: Sequence[Vertex]) -> None:
        self.vertices: Mapping[VertexId, Vertex] = {vertex.id: vertex for vertex in vertices}

    def behind(self, vertex_id: VertexId) -> Iterator[Vertex]:
        """The vertices that its rows stream through, itself included."""
        found: set[VertexId] = set()
        ahead = [vertex_id]
        while ahead:
            one = ahead.pop()
            if one not in found and one in self.vertices:
                found.add(one)
                yield self.vertices[one]
                ahead.extend(into.vertex for into in streamed_inputs(self.vertices[one]))

    def sources(self, vertex_id: VertexId) -> list[Source]:
        return [vertex for vertex in self.behind(vertex_id) if isinstance(vertex, Source)]


def _check_join(join: Join, graph: _Graph, faults: Faults, mode: Mode) -> None:
    if join.within is not None:
        _need_watermarks(join.id, graph.sources(join.id), faults)
    if mode is Mode.BATCH:
        return
    if join.static is not None:
        side = "right" if join.static == join.right else "left"
        if join.type not in _FOR_STATIC[side]:
            fitting = ", ".join(_FOR_STATIC[side])
            faults.add(
                join.id,
                "type",
                f"{join.static!r} is static, so the {side} side's rows without a partner are not "
                f"known before the stream ends: take one of {fitting}",
            )
    elif join.type is JoinType.LEFT_ANTI:
        faults.add(join.id, "type", "Spark has no left_anti join of two streams: use a left join")
    elif join.type is not JoinType.INNER and join.within is None:
        faults.add(
            join.id,
            "within",
            f"missing: a {join.type} join of two streams needs it to know when no partner can come",
        )


def _check_before(vertex: Join | Distinct, graph: _Graph, faults: Faults) -> None:
    """Results of an aggregation have no watermark, and updates cannot be joined."""
    for one in graph.behind(vertex.id):
        if emits_updates(one) and isinstance(vertex, Join) and is_keyed(vertex):
            faults.add(
                vertex.id,
                "inputs",
                f"Spark cannot join the updates of {one.id!r} with a stream in one query",
            )
        elif vertex.within and (isinstance(one, Window) or emits_updates(one)):
            faults.add(
                vertex.id, "within", f"the results of {one.id!r} carry no watermark: leave it out"
            )


def _need_watermarks(vertex_id: VertexId, sources: Sequence[Source], faults: Faults) -> None:
    for source in sources:
        if source.watermark is None:
            faults.add(
                source.id, "watermark", f"missing: {vertex_id!r} goes by the time of its rows"
            )


def _check_mode(sink: Sink, graph: _Graph, faults: Faults, mode: Mode) -> None:
    if mode is Mode.BATCH:
        if sink.mode not in (None, OutputMode.APPEND):
            faults.add(sink.id, "mode", "a batch job writes its result once: leave mode out")
        return
    behind = list(graph.behind(sink.id))
    updating = [v for v in behind if emits_updates(v)]
    waiting = [v for v in behind if isinstance(v, Join) and v.waits]
    sessions = [v for v in behind if isinstance(v, Window) and isinstance(v.window, SessionWindow)]
    if sink.mode is OutputMode.APPEND and updating:
        faults.add(
            sink.id,
            "mode",
            f"the results of {updating[0].id!r} change, so they cannot be appended: take update",
        )
    if sink.mode is OutputMode.UPDATE and (sessions or waiting):
        one = (sessions or waiting)[0]
        kind = "sessions" if sessions else f"a {one.type} join" if isinstance(one, Join) else ""
        faults.add(sink.id, "mode", f"Spark has no updates of {kind} ({one.id!r}): take append")
    if sink.mode is not OutputMode.UPDATE and updating and waiting:
        faults.add(
            sink.id,
            "inputs",
            f"{op_of(updating[0])} {updating[0].id!r} emits updates and join {waiting[0].id!r} "
            "waits for the watermark: a streaming query cannot do both, give each its own sink",
        )
    if sink.mode is OutputMode.COMPLETE:
        _check_complete(sink, behind, faults)


def _check_complete(sink: Sink, behind: Sequence[Vertex], faults: Faults) -> None:
    if isinstance(sink.connector, FilesSink):
        faults.add(
            sink.id,
            "mode",
            "files are added and never replaced, so they cannot hold one complete result: take "
            "update, where the newest row of a key counts",
        )
    is_window = any(isinstance(v, Window) or _is_sql_window(v) for v in behind)
    if not is_window and not any(emits_updates(v) for v in behind):
        faults.add(sink.id, "mode", "only an aggregate or a window has a complete result")


def _is_sql_window(vertex: Vertex) -> bool:
    return isinstance(vertex, Sql) and vertex.state is SqlState.WINDOW


def _check_sources(graph: _Graph, faults: Faults, mode: Mode) -> None:
    if mode is Mode.BATCH:
        for vertex in graph.vertices.values():
            if isinstance(vertex, Source) and isinstance(vertex.connector, SocketSource):
                faults.add(vertex.id, "connector", "a socket has no end: only in a stream")
        return
    sinks = [vertex.id for vertex in graph.vertices.values() if isinstance(vertex, Sink)]
    streamed = {source.id: source for sink in sinks for source in graph.sources(sink)}
    for source in streamed.values():
        if isinstance(source.connector, FilesSource) and source.connector.is_bounded:
            faults.add(
                source.id,
                "bounded",
                "in a stream only the static side of a join (without within) can be bounded files: "
                "leave this out, or use mode: batch",
            )
