"""`iceberg`: Parquet files that Spark reads and writes, in the metadata of an Iceberg table."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pyarrow
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType, _parse_datatype_string

from jobmanager.core.graph.connectors.iceberg import IcebergSink, IcebergSource
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.graph.sources import Source
from taskrunner.core.invalid_vertex import VertexRefused
from taskrunner.core.table_columns import TableColumn
from taskrunner.sinks.iceberg_table import (
    IcebergCommits,
    IcebergFiles,
    create_table,
    open_catalog,
    open_table,
)
from taskrunner.sinks.optional_packages import PackageMissing
from taskrunner.sinks.table_output import TableNotUsable
from taskrunner.spark.connectors.batch_sink import BatchSink
from taskrunner.spark.connectors.reading import ReadContext, SourceReader
from taskrunner.spark.connectors.table_sink import TableSink
from taskrunner.spark.connectors.table_source import checked_schema, read_files
from taskrunner.spark.connectors.writing import SinkWriter, WriteContext

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

Resolve = Callable[[str], Path]


def _open(sink: Sink, iceberg: IcebergSink, context: WriteContext) -> BatchSink:
    opened = partial(_open_or_create, iceberg, context.resolve)
    existing = partial(_open_existing, iceberg, context.resolve)
    return TableSink(
        sink, context, iceberg.partition_by, opened, existing, keeps_partition_columns=True
    )


def _open_or_create(iceberg: IcebergSink, resolve: Resolve, schema: StructType) -> IcebergCommits:
    try:
        with closing(_catalog(iceberg.catalog, resolve)) as catalog:
            table = open_table(catalog, iceberg.table)
            if table is None:
                table = create_table(catalog, iceberg.table, _arrow(schema), iceberg.partition_by)
        found = IcebergCommits(table)
        resolve(str(found.data.parent))  # the catalogue may name any place
    except (TableNotUsable, PackageMissing) as error:
        raise VertexRefused(str(error)) from error
    return found


def _open_existing(iceberg: IcebergSink, resolve: Resolve) -> IcebergCommits | None:
    with closing(_catalog(iceberg.catalog, resolve)) as catalog:
        table = open_table(catalog, iceberg.table)
        return None if table is None else IcebergCommits(table)


def _catalog(properties: Mapping[str, str], resolve: Resolve) -> "Catalog":
    """The catalogue; a warehouse without a scheme is a path like any other of the graph."""
    warehouse = properties.get("warehouse", "")
    if warehouse and not urlsplit(warehouse).scheme:
        properties = {**properties, "warehouse": f"file://{resolve(warehouse)}"}
    return open_catalog(properties)


def _arrow(schema: StructType) -> pyarrow.Schema:
    """The schema of a new table: every column may be NULL, and whole numbers have 32 or 64 bits,
    since Iceberg has no others.
    """
    found = to_arrow_schema(schema, timezone="UTC")
    small = (pyarrow.int8(), pyarrow.int16())
    return pyarrow.schema(
        pyarrow.field(one.name, pyarrow.int32() if one.type in small else one.type, nullable=True)
        for one in found
    )


def _read(source: Source, iceberg: IcebergSource, context: ReadContext) -> DataFrame:
    if context.is_trial and source.schema is not None:
        return context.spark.createDataFrame([], source.schema)
    try:
        with closing(_catalog(iceberg.catalog, context.resolve)) as catalog:
            table = open_table(catalog, iceberg.table)
        if table is None:
            raise VertexRefused(f"the catalogue has no table {iceberg.table}", "table")
        found = IcebergFiles(table, iceberg.snapshot)
    except (TableNotUsable, PackageMissing) as error:
        raise VertexRefused(str(error)) from error
    files = list(map(_location, found.files()))
    rows = read_files(context.spark, source.options, _struct(found.columns), files)
    return checked_schema(rows, source.schema)


def _struct(columns: Sequence[TableColumn]) -> StructType:
    found = StructType()
    for one in columns:
        found.add(one.name, _parse_datatype_string(one.type))
    return found


def _location(uri: str) -> str:
    """As Spark names files."""
    return f"file:{uri.removeprefix('file://')}" if urlsplit(uri).scheme in ("", "file") else uri


READERS = (SourceReader(IcebergSource, _read),)
WRITERS = (SinkWriter(IcebergSink, _open, withdraws=True),)
