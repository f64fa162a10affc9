"""The operator `source`: where rows come from."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from jobmanager.core.graph.columns import Columns, in_schema, missing_columns
from jobmanager.core.graph.connectors import read_class, refuse_connector
from jobmanager.core.graph.document_fields import Faults, Fields
from jobmanager.core.graph.file_format import FileFormat, read_format
from jobmanager.core.graph.job_graph import Mode
from jobmanager.core.graph.operator_entry import Arity, Header, Operator
from jobmanager.core.graph.vertex import Vertex

if TYPE_CHECKING:
    from jobmanager.core.graph.graph_view import GraphView

CONNECTORS = ("files", "generator", "table", "socket", "python")
MOST_TABLE_ROWS = 100_000


@dataclass(frozen=True, slots=True)
class Watermark:
    column: str
    delay: timedelta


@dataclass(frozen=True, slots=True)
class FilesSource:
    format: FileFormat
    path: str
    max_files_per_batch: int | None = None
    is_bounded: bool = False
    """In a stream: read only the files that exist at the start, for the static side of a join."""


@dataclass(frozen=True, slots=True)
class GeneratorSource:
    rows_per_second: int
    rows: int | None
    """None: unbounded."""
    columns: Mapping[str, str]
    """Columns, each a Spark SQL expression over `id` and `ts`."""


@dataclass(frozen=True, slots=True)
class TableSource:
    rows: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class SocketSource:
    host: str
    port: int


def socket_place(host: str, port: int) -> str:
    """How a rule about paths names the address that a `socket` source reads from."""
    shown = f"[{host}]" if ":" in host else host
    return f"socket://{shown}:{port}"


@dataclass(frozen=True, slots=True)
class PythonSource:
    function: str
    """`module:Class`, a data source of Spark's Python API."""


@dataclass(frozen=True, slots=True)
class ScriptSource:
    """A source that a script itself reads."""

    description: str


SourceConnector = (
    FilesSource | GeneratorSource | TableSource | SocketSource | PythonSource | ScriptSource
)


@dataclass(frozen=True, slots=True)
class Source(Vertex):
    op: ClassVar[str] = "source"
    connector: SourceConnector
    schema: str | None
    """Spark DDL; None: the connector determines the columns."""
    watermark: Watermark | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def can_be_static(self) -> bool:
        """Whether a stream can read the source as a whole."""
        match self.connector:
            case TableSource():
                return True
            case FilesSource(is_bounded=is_bounded):
                return is_bounded
            case _:
                return False

    def is_bounded(self, mode: Mode) -> bool:
        """Whether the source's rows have an end."""
        match self.connector:
            case TableSource():
                return True
            case GeneratorSource(rows=rows):
                return rows is not None
            case _:
                return mode is Mode.BATCH

    def columns_out(self, inputs: Sequence[Columns | None]) -> Columns | None:
        match self.connector:
            case GeneratorSource(columns=columns):
                return tuple(columns)
            case FilesSource(format=FileFormat.TEXT) if self.schema is None:
                return ("value",)
            case SocketSource():
                return None
            case _:
                return in_schema(self.schema) if self.schema else None

    def places(self) -> Iterator[tuple[str, str]]:
        match self.connector:
            case FilesSource(path=path):
                yield "path", path
            case SocketSource(host=host, port=port):
                yield "host", socket_place(host, port)

    def column_faults(self, inputs: Sequence[Columns]) -> Iterator[tuple[str, str]]:
        columns = self.columns_out(())
        if self.watermark is not None and columns is not None:
            yield from missing_columns([("watermark.column", self.watermark.column)], columns)

    def check(self, graph: "GraphView", faults: Faults) -> None:
        if graph.mode is Mode.BATCH and isinstance(self.connector, SocketSource):
            faults.add(self.id, "connector", "a socket never ends: a batch job cannot read it")


def _read(fields: Fields, header: Header) -> Source:
    connector = _connector(fields)
    schema = _schema(fields, connector)
    watermark = None
    if fields.has("watermark"):
        inner = fields.section("watermark")
        column, delay = inner.text("column"), inner.duration("delay", "0s", zero=True)
        inner.done()
        watermark = Watermark(column, delay) if delay is not None else None
    stand_in = connector or GeneratorSource(1, None, {})
    return Source(header.id, (), stand_in, schema, watermark, fields.settings("options"))


def _connector(fields: Fields) -> SourceConnector | None:
    """Read the connector; None: it was refused."""
    match fields.text("connector"):
        case "files":
            return FilesSource(
                read_format(fields),
                fields.text("path"),
                fields.integer("max_files_per_batch", None, least=1),
                fields.flag("bounded", False),
            )
        case "generator":
            return GeneratorSource(
                fields.integer("rows_per_second", least=1) or 1,
                fields.integer("rows", None, least=1, most=2**62),
                fields.expressions("columns"),
            )
        case "table":
            return TableSource(_rows(fields))
        case "socket":
            port = fields.integer("port", least=1, most=65535)
            return SocketSource(fields.text("host"), port or 1)
        case "python":
            return PythonSource(read_class(fields))
        case "script":
            return ScriptSource(fields.text("description", ""))
        case other:
            refuse_connector(fields, other, CONNECTORS, "source")
            return None


def _schema(fields: Fields, connector: SourceConnector | None) -> str | None:
    """Read the schema, as Spark DDL; None: the connector determines the columns."""
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


def _rows(fields: Fields) -> tuple[Mapping[str, Any], ...]:
    rows = fields.raw("rows")
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        fields.fault("rows", "missing: a list of rows, each a mapping column: value, is needed")
        return ()
    if len(rows) > MOST_TABLE_ROWS:
        fields.fault("rows", f"{len(rows)} rows are too many for a graph: use files")
    return tuple(rows)


OPERATORS = (Operator("source", _read, Arity.NONE),)
