"""The connector `files`: directories of files that sources read and sinks write."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Self

from jobmanager.core.graph.columns import Columns, in_schema
from jobmanager.core.graph.connectors.sink_connector import SinkConnector
from jobmanager.core.graph.connectors.source_connector import SourceConnector
from jobmanager.core.graph.document_fields import Fields
from jobmanager.core.graph.file_format import FileFormat, read_format
from jobmanager.core.paths.location import files_fault, remote_location

_LEAST_FILE, _MOST_FILE = 1 << 10, 1 << 40


class Visibility(StrEnum):
    """When readers can see a sink's rows: after their batch, or after its checkpoint."""

    BATCH = "batch"
    CHECKPOINT = "checkpoint"


@dataclass(frozen=True, slots=True)
class FilesSource(SourceConnector):
    name: ClassVar[str] = "files"
    format: FileFormat
    path: str
    max_files_per_batch: int | None = None
    is_bounded: bool = False
    """In a stream: read only the files that exist at the start, for the static side of a join."""

    @classmethod
    def read(cls, fields: Fields) -> Self:
        return cls(
            read_format(fields),
            _read_path(fields),
            fields.integer("max_files_per_batch", None, least=1),
            fields.flag("bounded", False),
        )

    def read_schema(self, fields: Fields) -> str | None:
        if self.format is FileFormat.TEXT:
            return fields.text("schema", "") or None
        return fields.text("schema")

    def columns_out(self, schema: str | None) -> Columns | None:
        if schema is None:
            return ("value",) if self.format is FileFormat.TEXT else None
        return in_schema(schema)

    @property
    def requires(self) -> tuple[str, ...]:
        return (*self.format.requires, *_packages_of(self.path))

    def places(self) -> Iterator[tuple[str, str]]:
        yield "path", self.path

    def code_in(self, options: Mapping[str, str]) -> str | None:
        return _code_in(options)

    @property
    def can_be_static(self) -> bool:
        return self.is_bounded

    @property
    def fault_in_a_stream(self) -> tuple[str, str] | None:
        if not self.is_bounded:
            return None
        return "bounded", (
            "in a stream only the static side of a join (without within) can be bounded files: "
            "leave this out, or use mode: batch"
        )


@dataclass(frozen=True, slots=True)
class FilesSink(SinkConnector):
    name: ClassVar[str] = "files"
    format: FileFormat
    path: str
    partition_by: tuple[str, ...] = ()
    visibility: Visibility = Visibility.BATCH
    target_file_size: int | None = None
    """About how many bytes a file should have. None: each task of Spark writes its own files."""

    @classmethod
    def read(cls, fields: Fields) -> Self:
        return cls(
            read_format(fields),
            _read_sink_path(fields),
            fields.names("partition_by"),
            fields.choice("visibility", Visibility, Visibility.BATCH),
            fields.byte_size("target_file_size", least=_LEAST_FILE, most=_MOST_FILE),
        )

    @property
    def requires(self) -> tuple[str, ...]:
        return (*self.format.requires, *_packages_of(self.path))

    def places(self) -> Iterator[tuple[str, str]]:
        yield "path", self.path

    def code_in(self, options: Mapping[str, str]) -> str | None:
        return _code_in(options)

    @property
    def guarantee(self) -> str:
        return "exactly once"

    @property
    def is_fenced(self) -> bool:
        return True

    @property
    def waits_for_checkpoint(self) -> bool:
        return self.visibility is Visibility.CHECKPOINT

    def exclusive_output(self, normal: Callable[[str], str]) -> str | None:
        remote = remote_location(self.path)
        return normal(self.path) if remote is None else str(remote)

    @property
    def fault_in_complete_mode(self) -> str | None:
        return (
            "files are added and never replaced, so they cannot hold one complete result: take "
            "update, where the newest row of a key counts"
        )

    def needed_columns(self) -> Iterator[tuple[str, str]]:
        return (("partition_by", column) for column in self.partition_by)

    def column_faults(self, columns: Columns) -> Iterator[tuple[str, str]]:
        if self.format is not FileFormat.TEXT:
            return
        written = [name for name in columns if name not in self.partition_by]
        if len(written) != 1:
            message = (
                f"format text writes a single column, but the input has {len(written)} "
                f"({', '.join(written)}): "
                "combine them into one column in a map before the sink"
            )
            yield "format", message


def _read_path(fields: Fields) -> str:
    path = fields.text("path")
    if fault := files_fault(path):
        fields.fault("path", fault)
        return ""
    return path


def _read_sink_path(fields: Fields) -> str:
    path = _read_path(fields)
    remote = remote_location(path)
    if remote is not None and not remote.path.name:
        fields.fault(
            "path", f"{path!r} has no directory: staged files are next to the sink's directory"
        )
    return path


def _packages_of(path: str) -> tuple[str, ...]:
    """Spark has the client of HDFS, but not that of S3."""
    return ("s3",) if path.startswith("s3a:") else ()


def _code_in(options: Mapping[str, str]) -> str | None:
    """Settings of a file system name classes, and stay in the process of the runner."""
    named = next((one for one in options if one.lower().startswith("fs.")), None)
    return f"sets the file system's {named}, which can name a class" if named else None


SOURCES = (FilesSource,)
SINKS = (FilesSink,)
