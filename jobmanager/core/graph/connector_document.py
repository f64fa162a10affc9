"""The connector fields of sources and sinks."""

import re
from collections.abc import Mapping
from typing import Any

from jobmanager.core.graph.artifact_vertices import ScriptSink, ScriptSource
from jobmanager.core.graph.document_fields import Fields
from jobmanager.core.graph.job_graph import (
    BlackholeSink,
    ConsoleSink,
    FileFormat,
    FilesSink,
    FilesSource,
    GeneratorSource,
    PythonSink,
    PythonSource,
    SinkConnector,
    SocketSource,
    SourceConnector,
    TableSource,
    Visibility,
)

SOURCES = ("files", "generator", "table", "socket", "python")
SINKS = ("files", "console", "blackhole", "python")
NOT_YET = frozenset(["kafka", "jdbc"])
_FORMATS_NOT_YET = ("avro",)
_REFERENCE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
MOST_TABLE_ROWS = 100_000
_ALL_FIELDS = frozenset(
    ["format", "path", "max_files_per_batch", "partition_by", "visibility", "rows_per_second"]
    + ["rows", "columns", "servers", "topic", "starting", "url", "table", "key", "host", "port"]
    + ["class", "bounded"]
)


def source_connector(fields: Fields) -> SourceConnector | None:
    """The source's connector; None where it was refused."""
    match fields.text("connector"):
        case "files":
            return FilesSource(
                _format(fields),
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
            return PythonSource(_reference(fields))
        case "script":
            return ScriptSource(fields.text("description", ""))
        case other:
            _refuse(fields, other, SOURCES, "source")
            return None


def sink_connector(fields: Fields) -> SinkConnector:
    match fields.text("connector"):
        case "files":
            return FilesSink(
                _format(fields),
                fields.text("path"),
                fields.names("partition_by"),
                fields.choice("visibility", Visibility, Visibility.BATCH),
            )
        case "console":
            return ConsoleSink()
        case "blackhole":
            return BlackholeSink()
        case "python":
            return PythonSink(_reference(fields))
        case "script":
            return ScriptSink(fields.text("description", ""))
        case other:
            _refuse(fields, other, SINKS, "sink")
            return BlackholeSink()


def _format(fields: Fields) -> FileFormat:
    if fields.raw("format") in _FORMATS_NOT_YET:
        named = fields.raw("format")
        fields.fault("format", f"format {named!r} is not supported by this version of Headgate yet")
        return FileFormat.PARQUET
    return fields.choice("format", FileFormat)


def _reference(fields: Fields) -> str:
    reference = fields.text("class")
    if reference and not _REFERENCE.fullmatch(reference):
        fields.fault("class", f"{reference!r} is not of the form module:Class")
    return reference


def _rows(fields: Fields) -> tuple[Mapping[str, Any], ...]:
    rows = fields.raw("rows")
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        fields.fault("rows", "missing: a list of rows, each a mapping column: value, is needed")
        return ()
    if len(rows) > MOST_TABLE_ROWS:
        fields.fault("rows", f"{len(rows)} rows are too many for a graph: use files")
    return tuple(rows)


def _refuse(fields: Fields, connector: str, known: tuple[str, ...], role: str) -> None:
    for field in _ALL_FIELDS:
        fields.raw(field)  # they may fit the connector that was meant
    if connector in NOT_YET:
        fields.fault(
            "connector", f"connector {connector!r} is not supported by this version of Headgate yet"
        )
    elif connector:
        fields.fault(
            "connector", f"{connector!r} is not a {role} connector: take one of {', '.join(known)}"
        )
