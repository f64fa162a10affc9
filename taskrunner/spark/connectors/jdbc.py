"""`jdbc`: tables of databases by Spark's JDBC reader and writer."""

import time
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from jobmanager.core.graph.connectors.jdbc import JdbcAccess, JdbcSink, JdbcSource
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.graph.sources import Source
from jobmanager.core.snapshots.manifest import Ancestor
from taskrunner.core.continuation import Branch
from taskrunner.core.invalid_vertex import VertexRefused
from taskrunner.core.table_ledger import ColumnsDiffer
from taskrunner.core.table_statements import dialect_of
from taskrunner.sinks.database_table import DatabaseTable, TableSpec
from taskrunner.spark.connectors.batch_sink import BatchSink
from taskrunner.spark.connectors.jdbc_connection import JdbcDatabase, JdbcOptions
from taskrunner.spark.connectors.reading import ReadContext, SourceReader
from taskrunner.spark.connectors.row_counts import counting, discard
from taskrunner.spark.connectors.writing import SinkWriter, WriteContext
from taskrunner.spark.session.column_names import column

_READ = "headgate_read"


class JdbcTable(BatchSink):
    """A table in which each row is written exactly once; see `DatabaseTable`."""

    def __init__(self, sink: Sink, jdbc: JdbcSink, context: WriteContext) -> None:
        self._spark = context.spark
        self._sink = sink
        self._guard_of = context.guard_of
        self._options = _options(jdbc.database, sink.options)
        self._batch_size = jdbc.batch_size
        dialect = dialect_of(self._options.url)
        database = JdbcDatabase(context.spark, self._options, dialect.at_start)
        spec = TableSpec(
            jdbc.table,
            jdbc.table_mode,
            dialect,
            jdbc.key,
            jdbc.op_column,
            jdbc.order_by,
            jdbc.batch_column,
            jdbc.staging_schema,
        )
        self._table = DatabaseTable(
            database.connect, spec, context.job, sink.id, context.attempt, context.guard
        )

    def continue_output(self, lineage: tuple[Ancestor, ...]) -> None:
        known = [
            (one.job, one.batches[self._sink.id]) for one in lineage if self._sink.id in one.batches
        ]
        branches = [Branch(job, -1 if batch is None else batch) for job, batch in known]
        self._table.take_over()
        self._table.continue_output(branches, self._guard_of)

    def recover(self, last_kept: int, last_visible: int | None) -> None:
        self._table.take_over()
        self._table.recover(last_kept)

    def withdraw(self, last_kept: int) -> None:
        self.recover(last_kept, None)

    def has_batch(self, batch: int) -> bool:
        return self._table.has(batch)

    def write(self, rows: DataFrame, batch: int) -> int:
        if self._table.has(batch):
            return discard(rows)
        try:
            staged, names = self._table.stage(
                batch, rows.columns, _definitions(self._spark, self._options.url, rows.schema)
            )
        except ColumnsDiffer as error:
            raise VertexRefused(f"sink {self._sink.id}: {error}", "table") from None
        try:
            taken = [column(one).alias(name) for one, name in names.items()]
            observed, count_of = counting(rows.select(*taken))
            options = self._options.for_spark(dbtable=staged.staging)
            if self._batch_size is not None:
                options["batchsize"] = str(self._batch_size)
            observed.write.format("jdbc").options(**options).mode("append").save()
            count = count_of()
            self._table.commit(batch, staged, count)
        except BaseException:
            self._table.abandon(staged)
            raise
        return count


def _read(source: Source, jdbc: JdbcSource, context: ReadContext) -> DataFrame:
    """All rows. With `refresh`, Spark keeps them, and drops them when they are old: the next batch
    reads them again.
    """
    if context.is_trial and source.schema is not None:
        return context.spark.createDataFrame([], source.schema)
    options = _options(jdbc.database, source.options).for_spark(dbtable=_relation(jdbc))
    named = {
        "partitionColumn": jdbc.partition_column,
        "lowerBound": jdbc.lower,
        "upperBound": jdbc.upper,
        "numPartitions": jdbc.partitions,
        "fetchsize": jdbc.fetch_size,
        "customSchema": source.schema,
    }
    options |= {name: str(value) for name, value in named.items() if value is not None}
    rows = context.spark.read.format("jdbc").options(**options).load()
    if source.schema is not None:
        wanted = context.spark.createDataFrame([], source.schema).columns
        rows = rows.select(*map(column, wanted))
    if jdbc.refresh is None or context.is_trial:
        return rows

    def read_again() -> None:
        rows.unpersist()
        rows.persist()

    read_again()  # what an earlier attempt in this session has read is old
    context.refreshes.add(jdbc.refresh, read_again, time.monotonic())
    return rows


def _relation(jdbc: JdbcSource) -> str:
    """What the database is asked for."""
    if jdbc.query is None and jdbc.where is None:
        return str(jdbc.table)
    if jdbc.where is None:
        return f"({jdbc.query}) {_READ}"
    inner = jdbc.table if jdbc.query is None else f"({jdbc.query}) headgate_query"
    return f"(SELECT * FROM {inner} WHERE {jdbc.where}) {_READ}"


def _options(database: JdbcAccess, more: Mapping[str, str]) -> JdbcOptions:
    dialect = dialect_of(database.url.text)
    driver = database.driver or dialect.driver
    if driver is None:
        raise VertexRefused(f"the driver of {dialect.name} is not known: name its class", "driver")
    named = {"user": database.user, "password": database.password, "driver": driver}
    properties = {name: value for name, value in named.items() if value is not None}
    return JdbcOptions(database.url.text, {**dialect.properties, **more, **properties})


def _definitions(spark: SparkSession, url: str, schema: StructType) -> Any:
    """How the database defines a column for a column of the rows."""
    jvm: Any = spark._jvm
    jdbc = jvm.org.apache.spark.sql.execution.datasources.jdbc.JdbcUtils
    dialect = jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(url)

    def definition(column: str, quoted: str) -> str:
        java_type = jvm.org.apache.spark.sql.types.DataType.fromJson(schema[column].dataType.json())
        return f"{quoted} {jdbc.getJdbcType(java_type, dialect).databaseTypeDefinition()}"

    return definition


READERS = (SourceReader(JdbcSource, _read),)
WRITERS = (SinkWriter(JdbcSink, JdbcTable, withdraws=True),)
