"""The operator `sink`: where rows go, and what a sink requires of all upstream vertices."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from jobmanager.core.graph.columns import Columns
from jobmanager.core.graph.connectors import registry
from jobmanager.core.graph.connectors.blackhole import BlackholeSink
from jobmanager.core.graph.connectors.sink_connector import SinkConnector
from jobmanager.core.graph.document_fields import Faults, Fields
from jobmanager.core.graph.job_graph import Mode
from jobmanager.core.graph.operator_entry import Header, Operator
from jobmanager.core.graph.output_mode import OutputMode
from jobmanager.core.graph.vertex import Vertex

if TYPE_CHECKING:
    from jobmanager.core.graph.graph_view import GraphView


@dataclass(frozen=True, slots=True)
class Sink(Vertex):
    op: ClassVar[str] = "sink"
    connector: SinkConnector
    options: Mapping[str, str] = field(default_factory=dict)
    mode: OutputMode | None = None
    """None: determined by the operators."""

    def places(self) -> Iterator[tuple[str, str]]:
        yield from self.connector.places()

    @property
    def is_fenced(self) -> bool:
        """Whether an attempt that was replaced can add nothing to the output."""
        return self.connector.is_fenced

    def needed_columns(self) -> Iterator[tuple[str, str]]:
        yield from self.connector.needed_columns()

    def column_faults(self, inputs: Sequence[Columns]) -> Iterator[tuple[str, str]]:
        yield from Vertex.column_faults(self, inputs)
        if inputs:
            yield from self.connector.column_faults(inputs[0])

    def real_time_faults(self) -> Iterator[tuple[str, str]]:
        yield from self.connector.real_time_faults(self.options)
        if self.mode not in (None, OutputMode.UPDATE):
            yield (
                "mode",
                (
                    "Spark's real-time mode writes each row as soon as it is known, in mode "
                    f"update, not {self.mode}: leave mode out"
                ),
            )

    def check(self, graph: "GraphView", faults: Faults) -> None:
        self.connector.check(self, graph, faults)
        if graph.mode is Mode.BATCH:
            if self.mode not in (None, OutputMode.APPEND):
                faults.add(self.id, "mode", "a batch job writes its result once: leave mode out")
            return
        _check_query(self, graph, faults)
        _check_mode(self, list(graph.behind(self.id)), faults)
        _check_bounded_sources(self, graph, faults)


def unfenced_sinks(vertices: Iterable[Vertex]) -> tuple[Sink, ...]:
    """The sinks to which a replaced attempt could still write (`Sink.is_fenced`)."""
    return tuple(one for one in vertices if isinstance(one, Sink) and not one.is_fenced)


def _check_query(sink: Sink, graph: "GraphView", faults: Faults) -> None:
    """Note vertices that cannot share a query: a Spark query has one output mode, and in update
    mode one aggregation.
    """
    vertices = list(graph.behind(sink.id))
    updating = sorted(v.id for v in vertices if v.emits_updates)
    windows = sorted(v.id for v in vertices if v.emits_windows)
    apart = sorted(v.id for v in vertices if not v.runs_beside_updates)
    if updating and windows:
        faults.add(
            sink.id,
            "inputs",
            f"aggregate {updating[0]!r} emits updates and window {windows[0]!r} emits once: "
            "a streaming query cannot do both, give each a sink of its own",
        )
    if updating and apart:
        faults.add(
            sink.id,
            "inputs",
            f"aggregate {updating[0]!r} emits updates, and Spark cannot run {apart[0]!r} in one "
            "streaming query with it: give each a sink of its own, or aggregate in the function",
        )
    for window in windows:
        for vertex in graph.behind(window):
            if vertex.id != window and vertex.emits_windows:
                faults.add(
                    window,
                    "inputs",
                    f"the windows of {vertex.id!r} carry no watermark: Spark cannot put them into "
                    "windows again in one streaming query",
                )
    for one in updating:
        for vertex in graph.behind(one):
            if vertex.id in updating and vertex.id != one:
                faults.add(
                    one,
                    "inputs",
                    f"Spark cannot aggregate the updates of {vertex.id!r} in one streaming query",
                )


def _check_mode(sink: Sink, behind: Sequence[Vertex], faults: Faults) -> None:
    updating = [v for v in behind if v.emits_updates]
    waiting = [v for v in behind if v.waits_for_partner]
    refusing = [v for v in behind if v.refuses_update_mode and not v.waits_for_partner] + waiting
    if sink.mode is OutputMode.APPEND and updating:
        faults.add(
            sink.id,
            "mode",
            f"the results of {updating[0].id!r} change and cannot be appended: use mode update",
        )
    if sink.mode is OutputMode.UPDATE and refusing:
        what = refusing[0].refuses_update_mode
        faults.add(
            sink.id, "mode", f"Spark has no updates of {what} ({refusing[0].id!r}): use mode append"
        )
    if sink.mode is not OutputMode.UPDATE and updating and waiting:
        faults.add(
            sink.id,
            "inputs",
            f"{updating[0].op} {updating[0].id!r} emits updates and {waiting[0].op} "
            f"{waiting[0].id!r} waits for the watermark: a streaming query cannot do both, give "
            "each its own sink",
        )
    if sink.mode is OutputMode.COMPLETE:
        _check_complete(sink, behind, faults)


def _check_complete(sink: Sink, behind: Sequence[Vertex], faults: Faults) -> None:
    if message := sink.connector.fault_in_complete_mode:
        faults.add(sink.id, "mode", message)
    if not any(v.has_complete_result for v in behind):
        faults.add(sink.id, "mode", "only an aggregate or a window has a complete result")


def _check_bounded_sources(sink: Sink, graph: "GraphView", faults: Faults) -> None:
    for source in graph.sources(sink.id):
        if fault := source.connector.fault_in_a_stream:
            faults.add(source.id, *fault)


def _read(fields: Fields, header: Header) -> Sink:
    connector = registry.read_sink(fields) or BlackholeSink()
    mode = connector.read_mode(fields)
    return Sink(header.id, header.inputs, connector, fields.settings("options"), mode)


OPERATORS = (Operator("sink", _read),)
