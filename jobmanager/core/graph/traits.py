"""What the operators have in common that planning goes by."""

from collections.abc import Collection

from jobmanager.core.graph.artifact_vertices import UPDATING, Spark, StatefulScript, StatefulSpark
from jobmanager.core.graph.clocks import Clock
from jobmanager.core.graph.inputs import Input
from jobmanager.core.graph.job_graph import KEYED, Aggregate, Vertex, Window
from jobmanager.core.graph.python_vertices import Process
from jobmanager.core.graph.relational_vertices import Join, Reduce, Sql, SqlState
from jobmanager.core.ids import VertexId


def is_keyed(vertex: Vertex) -> bool:
    """Whether it keeps state by key in a stream."""
    match vertex:
        case Join():
            return vertex.static is None
        case Sql():
            return vertex.state is not SqlState.NONE
        case _:
            return isinstance(vertex, KEYED)


def emits_updates(vertex: Vertex) -> bool:
    """Whether its results change, and come out again when they did."""
    if isinstance(vertex, Sql):
        return vertex.state in (SqlState.AGGREGATE, SqlState.TOTAL)
    if isinstance(vertex, Spark):
        return not UPDATING.isdisjoint(vertex.state)
    return isinstance(vertex, Aggregate | Reduce)


def waits_for_time(vertex: Vertex) -> bool:
    """Whether rows may come out when the watermark, or the time of day, moves and none come."""
    match vertex:
        case Process():
            return vertex.time is not Clock.NONE
        case Join():
            return vertex.waits
        case Sql():
            return vertex.state in (SqlState.WINDOW, SqlState.JOIN)
        case _:
            if isinstance(vertex, Window):
                return vertex.clock is not Clock.NONE
            return isinstance(vertex, StatefulSpark | StatefulScript)


def goes_by_the_clock(vertex: Vertex) -> bool:
    """Whether it may emit when the time of day moves."""
    if isinstance(vertex, Window):
        return vertex.clock is Clock.PROCESSING
    return isinstance(vertex, Process) and vertex.time is Clock.PROCESSING


def streamed_inputs(vertex: Vertex) -> tuple[Input, ...]:
    """Its inputs without those that are read as a whole beside a stream."""
    static: Collection[VertexId] = ()
    if isinstance(vertex, Join) and vertex.static is not None:
        static = (vertex.static,)
    elif isinstance(vertex, Sql):
        static = vertex.static
    return tuple(one for one in vertex.inputs if one.vertex not in static)
