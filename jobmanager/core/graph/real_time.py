"""Which graphs Spark's real-time mode can run (`execution: {style: real_time}`).

A real-time query keeps its tasks for a whole checkpoint interval, gives each row to the sink as
soon as it is known (output mode update), and commits at the end of the interval. Each operator and
each connector says itself why it cannot run so (`real_time_faults`); here is what only the whole
graph tells. Static sides of joins are read as in any stream.
"""

from collections.abc import Iterator
from datetime import timedelta

from jobmanager.core.durations import milliseconds
from jobmanager.core.graph.document_fields import Faults
from jobmanager.core.graph.graph_view import GraphView
from jobmanager.core.graph.job_graph import JobGraph, Mode
from jobmanager.core.graph.projection import Union
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.graph.vertex import Vertex
from jobmanager.core.ids import VertexId

LEAST_INTERVAL = timedelta(seconds=5)
_LEAST_SETTING = "spark.sql.streaming.realTimeMode.minBatchDuration"


def check(graph: JobGraph, faults: Faults) -> None:
    """Note every reason why the graph cannot run in real-time mode."""
    if graph.mode is Mode.BATCH:
        faults.add(
            None, "execution.style", "a batch job has an end: leave execution out, or mode: batch"
        )
        return
    _check_times(graph, faults)
    view = GraphView(graph.vertices, graph.mode)
    sinks = [one for one in graph.vertices if isinstance(one, Sink)]
    streamed = {one.id: one for sink in sinks for one in view.behind(sink.id)}
    for vertex in graph.vertices:
        if vertex.id in streamed:
            for field, message in vertex.real_time_faults():
                faults.add(vertex.id, field, message)
            if isinstance(vertex, Union):
                _check_union(vertex, view, faults)
    for sink in sinks:
        _check_states(sink, view, faults)
    for sink, other, keyed in _sharing(sinks, view):
        faults.add(
            sink.id,
            "inputs",
            f"{keyed!r} also leads to {other.id!r}: a real-time query writes to one sink, give "
            "each sink a keyed vertex of its own",
        )


def _check_times(graph: JobGraph, faults: Faults) -> None:
    times, given = graph.checkpointing, graph.spark.get(_LEAST_SETTING, "")
    least = timedelta(milliseconds=int(given)) if given.isdigit() else LEAST_INTERVAL
    if times.interval < least:
        faults.add(
            None,
            "checkpointing.interval",
            f"{milliseconds(times.interval)} ms is too short: a real_time job commits once in each "
            f"interval, at least {milliseconds(least)} ms long ({_LEAST_SETTING} in spark "
            "changes that)",
        )
    if times.timeout <= times.interval:
        faults.add(
            None,
            "checkpointing.timeout",
            f"{milliseconds(times.timeout)} ms is no longer than the interval: a real_time job "
            "takes a checkpoint when its interval has ended, so every checkpoint would expire",
        )


def _check_union(union: Vertex, view: GraphView, faults: Faults) -> None:
    """Note what Spark cannot unite: one source with itself, and results of keyed vertices."""
    sides = [{one.id: one for one in view.behind(into.vertex)} for into in union.inputs]
    for position, side in enumerate(sides):
        for vertex in side.values():
            if vertex.is_keyed:
                faults.add(
                    union.id,
                    "inputs",
                    f"Spark's real-time mode has no union after the keyed vertex {vertex.id!r}: "
                    "unite the rows before it",
                )
        for one in view.sources(union.inputs[position].vertex):
            if any(one.id in other for other in sides[:position]):
                faults.add(
                    union.id,
                    "inputs",
                    f"source {one.id!r} comes in twice, which Spark's real-time mode does not "
                    "support: name a second source with the same topic",
                )


def _check_states(sink: Sink, view: GraphView, faults: Faults) -> None:
    keyed = [one.id for one in view.behind(sink.id) if one.is_keyed]
    if len(keyed) > 1:
        faults.add(
            sink.id,
            "inputs",
            f"the keyed vertices {' and '.join(sorted(keyed))} are one after the other: a "
            "real-time query has one keyed vertex at most, write between them to a topic",
        )


def _sharing(sinks: list[Sink], view: GraphView) -> Iterator[tuple[Sink, Sink, VertexId]]:
    """Each sink after the first that shares a keyed vertex with one before it."""
    keyed = [{one.id for one in view.behind(sink.id) if one.is_keyed} for sink in sinks]
    for position, sink in enumerate(sinks):
        for before in range(position):
            shared = keyed[position] & keyed[before]
            if shared:
                yield sink, sinks[before], min(shared)
                break
