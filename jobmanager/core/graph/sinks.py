"""The operator `sink`: where rows go, and what a sink requires of all upstream vertices."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from jobmanager.core.graph.columns import Columns
from jobmanager.core.graph.connectors import read_class, refuse_connector
from jobmanager.core.graph.document_fields import Faults, Fields
from jobmanager.core.graph.file_format import FileFormat, read_format
from jobmanager.core.graph.job_graph import Mode
from jobmanager.core.graph.operator_entry import Header, Operator
from jobmanager.core.graph.output_mode import OutputMode
from jobmanager.core.graph.sources import FilesSource
from jobmanager.core.graph.vertex import Vertex, named

if TYPE_CHECKING:
    from jobmanager.core.graph.graph_view import GraphView

CONNECTORS = ("files", "console", "blackhole", "python")


class Visibility(StrEnum):
    """When readers can see a sink's rows: after their batch, or after its checkpoint."""

    BATCH = "batch"
    CHECKPOINT = "checkpoint"


@dataclass(frozen=True, slots=True)
class FilesSink:
    format: FileFormat
    path: str
    partition_by: tuple[str, ...] = ()
    visibility: Visibility = Visibility.BATCH


@dataclass(frozen=True, slots=True)
class ConsoleSink:
    pass


@dataclass(frozen=True, slots=True)
class BlackholeSink:
    pass


@dataclass(frozen=True, slots=True)
class PythonSink:
    function: str
    """`module:Class`, a data source of Spark's Python API that has a writer."""


@dataclass(frozen=True, slots=True)
class ScriptSink:
    """What the script itself does with each batch."""

    description: str


SinkConnector = FilesSink | ConsoleSink | BlackholeSink | PythonSink | ScriptSink


@dataclass(frozen=True, slots=True)
class Sink(Vertex):
    op: ClassVar[str] = "sink"
    connector: SinkConnector
    options: Mapping[str, str] = field(default_factory=dict)
    mode: OutputMode | None = None
    """None: determined by the operators."""

    def places(self) -> Iterator[tuple[str, str]]:
        if isinstance(self.connector, FilesSink):
            yield "path", self.connector.path

    @property
    def is_fenced(self) -> bool:
        """Whether an attempt that was replaced can add nothing to the output: the sink shows rows
        only while the attempt's epoch is held. Users' code writes where nobody can hold it back.
        """
        return isinstance(self.connector, FilesSink | ConsoleSink | BlackholeSink)

    def needed_columns(self) -> Iterator[tuple[str, str]]:
        if isinstance(self.connector, FilesSink):
            yield from named("partition_by", self.connector.partition_by)

    def column_faults(self, inputs: Sequence[Columns]) -> Iterator[tuple[str, str]]:
        yield from Vertex.column_faults(self, inputs)
        files = self.connector
        if inputs and isinstance(files, FilesSink) and files.format is FileFormat.TEXT:
            written = [name for name in inputs[0] if name not in files.partition_by]
            if len(written) != 1:
                message = (
                    f"format text writes a single column, but the input has {len(written)} "
                    f"({', '.join(written)}): "
                    "combine them into one column in a map before the sink"
                )
                yield "format", message

    def check(self, graph: "GraphView", faults: Faults) -> None:
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
    if isinstance(sink.connector, FilesSink):
        faults.add(
            sink.id,
            "mode",
            "files are added and never replaced, so they cannot hold one complete result: take "
            "update, where the newest row of a key counts",
        )
    if not any(v.has_complete_result for v in behind):
        faults.add(sink.id, "mode", "only an aggregate or a window has a complete result")


def _check_bounded_sources(sink: Sink, graph: "GraphView", faults: Faults) -> None:
    for source in graph.sources(sink.id):
        if isinstance(source.connector, FilesSource) and source.connector.is_bounded:
            faults.add(
                source.id,
                "bounded",
                "in a stream only the static side of a join (without within) can be bounded files: "
                "leave this out, or use mode: batch",
            )


def _read(fields: Fields, header: Header) -> Sink:
    connector = _connector(fields)
    chosen = fields.choice("mode", OutputMode) if fields.has("mode") else None
    return Sink(header.id, header.inputs, connector, fields.settings("options"), chosen)


def _connector(fields: Fields) -> SinkConnector:
    match fields.text("connector"):
        case "files":
            return FilesSink(
                read_format(fields),
                fields.text("path"),
                fields.names("partition_by"),
                fields.choice("visibility", Visibility, Visibility.BATCH),
            )
        case "console":
            return ConsoleSink()
        case "blackhole":
            return BlackholeSink()
        case "python":
            return PythonSink(read_class(fields))
        case "script":
            return ScriptSink(fields.text("description", ""))
        case other:
            refuse_connector(fields, other, CONNECTORS, "sink")
            return BlackholeSink()


OPERATORS = (Operator("sink", _read),)
