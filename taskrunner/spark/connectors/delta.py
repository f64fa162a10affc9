"""`delta`: Parquet files that Spark reads and writes, in the log of a Delta table."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import StringType, StructField, StructType

from jobmanager.core.graph.connectors.delta import DeltaSink, DeltaSource
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.graph.sources import Source
from taskrunner.core.invalid_vertex import VertexRefused
from taskrunner.core.table_columns import TableColumn
from taskrunner.sinks.delta_table import (
    DeltaCommits,
    DeltaFiles,
    PartitionedFile,
    is_delta_table,
)
from taskrunner.sinks.optional_packages import PackageMissing
from taskrunner.sinks.table_output import TableNotUsable
from taskrunner.spark.connectors.batch_sink import BatchSink
from taskrunner.spark.connectors.reading import ReadContext, SourceReader
from taskrunner.spark.connectors.reading_back import CannotReadBack, LastRows, ReadBackContext
from taskrunner.spark.connectors.table_sink import TableSink, columns_of
from taskrunner.spark.connectors.table_source import checked_schema, read_files
from taskrunner.spark.connectors.writing import SinkWriter, WriteContext

_PATH = "__headgate_path"


class OpenDelta(DeltaCommits):
    """A table with its columns as Spark names them."""

    @property
    def columns(self) -> Sequence[TableColumn]:
        return columns_of(_struct(self.schema))


def _open(sink: Sink, delta: DeltaSink, context: WriteContext) -> BatchSink:
    path = context.resolve(delta.path)
    opened = partial(_open_or_create, path, delta.partition_by)
    return TableSink(
        sink,
        context,
        delta.partition_by,
        opened,
        lambda: OpenDelta(path) if is_delta_table(path) else None,
        keeps_partition_columns=False,
    )


def _open_or_create(path: Path, partition_by: Sequence[str], schema: StructType) -> OpenDelta:
    try:
        if not is_delta_table(path):
            _refuse_other_files(path)
            DeltaCommits.create(path, json.dumps(_plain(schema.jsonValue())), partition_by)
        return OpenDelta(path)
    except (TableNotUsable, PackageMissing) as error:
        raise VertexRefused(str(error)) from error


def _refuse_other_files(path: Path) -> None:
    """A directory with other files would become a table that hides them."""
    others = [one.name for one in path.iterdir()] if path.is_dir() else []
    if others:
        raise VertexRefused(
            f"{path} is no Delta table, and has other files ({', '.join(sorted(others)[:3])}): "
            "name another directory, or convert it to a Delta table first",
            "path",
        )


def _plain(kind: Any) -> Any:
    """A type without the metadata of columns, which are Spark's own, and with NULL allowed."""
    if isinstance(kind, list):
        return [_plain(one) for one in kind]
    if not isinstance(kind, dict):
        return kind
    changed = {key: _plain(value) for key, value in kind.items() if key != "metadata"}
    return {**changed, "nullable": True, "metadata": {}} if "nullable" in kind else changed


def _read(source: Source, delta: DeltaSource, context: ReadContext) -> DataFrame:
    try:
        table = DeltaFiles(context.resolve(delta.path), delta.version)
    except (TableNotUsable, PackageMissing) as error:
        raise VertexRefused(str(error)) from error
    rows = _rows_of(context.spark, source.options, table, table.files())
    return checked_schema(rows, source.schema)


def _last_rows(sink: Sink, delta: DeltaSink, context: ReadBackContext, rows: int) -> LastRows:
    path = context.resolve(delta.path)
    if not is_delta_table(path):
        return LastRows(None, f"no table in {path}")
    try:
        table = DeltaFiles(path)
    except (TableNotUsable, PackageMissing) as error:
        raise CannotReadBack(str(error)) from error
    origin = f"version {table.version} of the table {path}"
    if not (files := table.newest(rows)):
        return LastRows(None, origin)
    return LastRows(_rows_of(context.spark, {}, table, files), origin)


def _rows_of(
    spark: SparkSession,
    options: Mapping[str, str],
    table: DeltaFiles,
    files: Sequence[PartitionedFile],
) -> DataFrame:
    schema = _struct(table.schema)
    partitions = table.partitioned_by
    stored = StructType([one for one in schema.fields if one.name not in partitions])
    rows = read_files(spark, options, stored, [one.location for one in files])
    if partitions:
        rows = _with_partitions(rows, files, schema, partitions)
    return rows.select(*(f"`{one}`" for one in schema.names))


def _with_partitions(
    rows: DataFrame, files: Sequence[PartitionedFile], schema: StructType, names: Sequence[str]
) -> DataFrame:
    """Adds the columns of the partition, which only the table's log has, to the rows of a file."""
    kept = [schema[name] for name in names]
    known = rows.sparkSession.createDataFrame(
        [
            (one.location.removeprefix("file:"), *(one.partition[name] for name in names))
            for one in files
        ],
        StructType([StructField(_PATH, StringType()), *kept]),
    )
    path = sql.replace(sql.col("_metadata.file_path"), sql.lit("+"), sql.lit("%2B"))
    decoded = sql.regexp_replace(sql.url_decode(path), "^file:/*", "/")
    named = rows.withColumn(_PATH, decoded)
    return named.join(sql.broadcast(known), _PATH).drop(_PATH)


def _struct(schema: str) -> StructType:
    return StructType.fromJson(json.loads(schema))


READERS = (SourceReader(DeltaSource, _read),)
WRITERS = (SinkWriter(DeltaSink, _open, withdraws=True, last_rows=_last_rows),)
