"""Sources as DataFrames: streaming in a streaming job, bounded in a batch job."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import assert_never

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from jobmanager.core.durations import milliseconds
from jobmanager.core.graph.job_graph import Mode
from jobmanager.core.graph.sources import (
    FilesSource,
    GeneratorSource,
    PythonSource,
    ScriptSource,
    SocketSource,
    Source,
    TableSource,
)
from jobmanager.core.snapshots.layout import rows_file
from taskrunner.snapshots.layout import JobLayout
from taskrunner.spark.compile import python_connectors
from taskrunner.spark.compile.compile_context import CompileContext, OperatorCompiler
from taskrunner.spark.compile.invalid_vertex import InvalidVertex
from taskrunner.spark.compile.time_columns import TIME


@dataclass(frozen=True, slots=True)
class Sources:
    """Reads the sources of one job."""

    spark: SparkSession
    mode: Mode
    parallelism: int
    resolve: Callable[[str], Path]
    """Resolves a path in the graph."""
    layout: JobLayout
    started_at: datetime

    def read(self, source: Source, *, is_static: bool = False) -> DataFrame:
        """The source's rows, with the vertex's parallelism; all rows at once if it `is_static`."""
        if is_static and self.mode is Mode.STREAMING:
            return replace(self, mode=Mode.BATCH).read(source)
        rows = self._rows(source)
        if source.parallelism is not None:
            rows = rows.repartition(source.parallelism)
        if source.watermark is None:
            return rows
        if self.mode is Mode.BATCH:
            return rows.withMetadata(source.watermark.column, {TIME: True})
        delay = f"{milliseconds(source.watermark.delay)} milliseconds"
        return rows.withWatermark(source.watermark.column, delay)

    def _rows(self, source: Source) -> DataFrame:
        match source.connector:
            case FilesSource():
                return self._files(source, source.connector)
            case GeneratorSource():
                return self._generator(source.connector)
            case TableSource():
                return self._table(source, source.connector)
            case SocketSource():
                return self._socket(source, source.connector)
            case PythonSource():
                return self._python(source, source.connector)
            case ScriptSource():
                raise InvalidVertex(source.id, "only the script reads it")
            case _:
                assert_never(source.connector)

    def _files(self, source: Source, files: FilesSource) -> DataFrame:
        options = dict(source.options)
        if files.max_files_per_batch is not None and self.mode is Mode.STREAMING:
            options["maxFilesPerTrigger"] = str(files.max_files_per_batch)
        return self._load(files.format, source.schema, options, self.resolve(files.path))

    def _table(self, source: Source, table: TableSource) -> DataFrame:
        """Writes the rows to a file of the job, so that they are read like any other file."""
        rows = rows_file(source.id)
        lines = [json.dumps(row, ensure_ascii=False, default=str) for row in table.rows]
        is_new = self.layout.work.create(rows, "".join(line + "\n" for line in lines))
        if not is_new and not _are_same(self.layout.work.read(rows).decode().splitlines(), lines):
            raise InvalidVertex(
                source.id,
                "its rows are not those that the job began with, and Spark would not read them: "
                "submit another job for them",
            )
        return self._load("json", source.schema, {"mode": "FAILFAST"}, self.layout.rows(source.id))

    def _load(
        self, file_format: str, schema: str | None, options: dict[str, str], path: Path | None
    ) -> DataFrame:
        uri = None if path is None else path.as_uri()
        if self.mode is Mode.STREAMING:
            stream = self.spark.readStream.format(file_format).options(**options)
            return (stream.schema(schema) if schema else stream).load(uri)
        reader = self.spark.read.format(file_format).options(**options)
        return (reader.schema(schema) if schema else reader).load(uri)

    def _socket(self, source: Source, socket: SocketSource) -> DataFrame:
        lines = self.spark.readStream.format("socket").options(**source.options)
        return lines.option("host", socket.host).option("port", socket.port).load()

    def _python(self, source: Source, python: PythonSource) -> DataFrame:
        name = python_connectors.register(self.spark, source.id, python.function)
        return self._load(name, source.schema, dict(source.options), None)

    def _generator(self, generator: GeneratorSource) -> DataFrame:
        ids = self._stream(generator) if self.mode is Mode.STREAMING else self._range(generator)
        if generator.rows is not None:
            ids = ids.where(sql.col("id") < generator.rows)
        return ids.select(*(sql.expr(text).alias(name) for name, text in generator.columns.items()))

    def _stream(self, generator: GeneratorSource) -> DataFrame:
        rate = (
            self.spark.readStream.format("rate")
            .option("rowsPerSecond", generator.rows_per_second)
            .option("numPartitions", self.parallelism)
            .load()
        )
        return rate.select(sql.col("value").alias("id"), sql.col("timestamp").alias("ts"))

    def _range(self, generator: GeneratorSource) -> DataFrame:
        ids = self.spark.range(0, generator.rows or 0, 1, self.parallelism)
        micros = int(self.started_at.timestamp() * 1_000_000)
        offset = sql.floor(sql.col("id") * sql.lit(1_000_000) / sql.lit(generator.rows_per_second))
        return ids.withColumn("ts", sql.timestamp_micros(sql.lit(micros) + offset))


def _are_same(lines: list[str], others: list[str]) -> bool:
    """Whether the rows are the same, whatever the order of their columns."""
    return [json.loads(line) for line in lines] == [json.loads(line) for line in others]


def _compile(vertex: Source, inputs: Sequence[DataFrame], context: CompileContext) -> DataFrame:
    return context.read(vertex, is_static=context.is_static)


COMPILERS = (OperatorCompiler(Source, _compile),)
