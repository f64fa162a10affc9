"""A sink that appends each batch to a table with a log of its own (Delta, Iceberg)."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from jobmanager.core.graph.file_format import FileFormat
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.snapshots.manifest import Ancestor
from taskrunner.core.invalid_vertex import VertexRefused
from taskrunner.core.table_columns import TableColumn, differences, partition_difference
from taskrunner.sinks.staged_files import staged_files
from taskrunner.sinks.table_output import CommittedTable, TableOutput
from taskrunner.spark.connectors.batch_sink import BatchSink
from taskrunner.spark.connectors.row_counts import counted, discard
from taskrunner.spark.connectors.writing import WriteContext
from taskrunner.spark.session.column_names import column

_TIMESTAMPS = "spark.sql.parquet.outputTimestampType"
_MICROSECONDS = "TIMESTAMP_MICROS"
_COPY = "__headgate_partition_"
_PARTITION_TYPES = frozenset(["string", "tinyint", "smallint", "int", "bigint", "date", "boolean"])


class OpenTable(CommittedTable, Protocol):
    """A table that exists, as the sink sees it."""

    @property
    def columns(self) -> Sequence[TableColumn]: ...
    @property
    def partitioned_by(self) -> Sequence[str]: ...
    def obstacles(self) -> Sequence[str]:
        """Every reason why files cannot simply be added to the table."""
        ...


class TableSink(BatchSink):
    """A replayed batch is computed (its state is needed), but not written."""

    def __init__(
        self,
        sink: Sink,
        context: WriteContext,
        partition_by: Sequence[str],
        open_or_create: Callable[[StructType], OpenTable],
        open_existing: Callable[[], CommittedTable | None],
        *,
        keeps_partition_columns: bool,
    ) -> None:
        self._sink = sink
        self._context = context
        self._partition_by = partition_by
        self._open_or_create = open_or_create
        self._open_existing = open_existing
        self._keeps_partition_columns = keeps_partition_columns
        """Whether the files hold the partition's columns too: Iceberg's do, Delta's do not."""
        self._table: OpenTable
        self._output: TableOutput

    def begin(self, schema: StructType) -> None:
        wanted = columns_of(schema)
        _check_partitions(self._partition_by, wanted)
        table = self._open_or_create(schema)
        if obstacles := table.obstacles():
            raise VertexRefused(f"{table.name} cannot be written to: it has {', '.join(obstacles)}")
        found = differences(wanted, table.columns)
        if wrong := partition_difference(self._partition_by, table.partitioned_by):
            found.append(wrong)
        if found:
            raise VertexRefused(f"the rows do not fit {table.name}: {'; '.join(found)}")
        _check_partitions(table.partitioned_by, wanted)
        self._table = table
        self._output = self._output_in(table)

    def write(self, rows: DataFrame, batch: int) -> int:
        if self._output.has(batch):
            return discard(rows)
        staged = self._output.stage(batch)
        try:
            return self._write(rows, batch, staged)
        except BaseException:
            self._output.discard(staged)
            raise

    def continue_output(self, lineage: tuple[Ancestor, ...]) -> None:
        kept = {
            one.job: one.batches[self._sink.id] for one in lineage if self._sink.id in one.batches
        }
        for job in kept:
            with self._context.guard_of(job)():
                pass  # from now on no attempt of that job can commit
        self._output.continue_after(
            {job: -1 if batch is None else batch for job, batch in kept.items()}
        )

    def recover(self, last_kept: int, last_visible: int | None) -> None:
        self._output.recover(last_kept)

    def withdraw(self, last_kept: int) -> None:
        table = self._open_existing()
        if table is not None:
            self._output_in(table).recover(last_kept)

    def has_batch(self, batch: int) -> bool:
        return self._output.has(batch)

    def _output_in(self, table: CommittedTable) -> TableOutput:
        context = self._context
        return TableOutput(table, context.job, self._sink.id, context.attempt, context.guard)

    def _write(self, rows: DataFrame, batch: int, staged: Path) -> int:
        partitions = list(self._table.partitioned_by)
        observed, count_of = counted(self._shaped(rows), by_partition=False)
        if self._keeps_partition_columns:
            observed = observed.select(
                "*", *(column(one).alias(f"{_COPY}{one}") for one in partitions)
            )
            partitions = [f"{_COPY}{one}" for one in partitions]
        writer = observed.write.format("parquet").options(**self._sink.options)
        if partitions:
            writer = writer.partitionBy(*partitions)
        session = rows.sparkSession
        session.conf.set(_TIMESTAMPS, _MICROSECONDS)  # tables have no other timestamps
        writer.save(f"file:{staged}")  # a URI would be encoded, and Spark takes it as it is
        count = count_of()
        files = staged_files(staged, FileFormat.PARQUET)
        self._output.commit(batch, staged, count, files)
        return count.rows

    def _shaped(self, rows: DataFrame) -> DataFrame:
        """The rows with the table's types, in the table's order of columns."""
        known = {one.name: one.type for one in self._table.columns}
        return rows.select(
            *(
                column(name).cast(kind).alias(name)
                for name, kind in known.items()
                if name in rows.columns
            )
        )


def columns_of(schema: StructType) -> list[TableColumn]:
    return [
        TableColumn(one.name, one.dataType.simpleString(), one.nullable) for one in schema.fields
    ]


def _check_partitions(partition_by: Sequence[str], columns: Sequence[TableColumn]) -> None:
    kinds = {one.name: one.type for one in columns}
    for name in partition_by:
        if name not in kinds:
            raise VertexRefused(
                f"the table is partitioned by {name!r}, and the job does not write it: add it in "
                "a map before the sink",
                "partition_by",
            )
        if kinds[name] not in _PARTITION_TYPES:
            raise VertexRefused(
                f"column {name!r} is {kinds[name]}: a table can be partitioned by columns of "
                f"the types {', '.join(sorted(_PARTITION_TYPES))}",
                "partition_by",
            )
    if partition_by and len(partition_by) == len(columns):
        raise VertexRefused("at least one column has to remain beside partition_by", "partition_by")
