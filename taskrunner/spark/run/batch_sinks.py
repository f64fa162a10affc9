"""What becomes of the rows of one batch. Each sink runs the batch exactly once."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol
from uuid import uuid4

import pyarrow.orc
import pyarrow.parquet
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sql

from jobmanager.core.graph.file_format import FileFormat
from jobmanager.core.graph.output_mode import OutputMode
from jobmanager.core.graph.sinks import FilesSink, PythonSink, Sink
from taskrunner.sinks.directory import SinkDirectory
from taskrunner.spark.compile import python_connectors

_ROWS_SHOWN = 20


class BatchSink(Protocol):
    def write(self, rows: DataFrame, batch: int) -> int:
        """Takes the rows of a batch; how many there were."""
        ...


class ExactlyOnceFiles:
    """The `files` sink. A batch that is replayed is computed (its state is needed), not written."""

    def __init__(
        self, sink: Sink, files: FilesSink, directory: SinkDirectory, is_held: bool
    ) -> None:
        self._sink = sink
        self._files = files
        self._directory = directory
        self._is_held = is_held

    def write(self, rows: DataFrame, batch: int) -> int:
        if self._directory.state_of(batch) is not None:
            count = Discarded().write(rows, batch)
            self._directory.finish(batch)
            return count
        staged = self._directory.stage(batch)
        try:
            return self._write(rows, batch, staged)
        except BaseException:
            self._directory.abandon(batch, staged)
            raise

    def _write(self, rows: DataFrame, batch: int, staged: Path) -> int:
        observed, counted = _counting(rows)
        writer = observed.write.format(self._files.format).options(**self._sink.options)
        if self._files.partition_by:
            writer = writer.partitionBy(*self._files.partition_by)
        writer.save(staged.as_uri())
        count = counted()
        if count == 0:
            self._directory.discard(staged)
        else:
            files = _with_rows(staged, self._files.format)
            self._directory.commit(batch, staged, count, files, self._is_held)
        return count


class PythonWriter:
    """The `python` sink: what a batch may do twice is for its class to bear.

    It is told job, region and batch in its options, so that it can.
    """

    def __init__(self, sink: Sink, python: PythonSink, spark: SparkSession, job: str) -> None:
        self._sink = sink
        self._options = {**sink.options, "headgate.job": job, "headgate.region": str(sink.id)}
        self._format = python_connectors.register(spark, sink.id, python.function, "writer")

    def write(self, rows: DataFrame, batch: int) -> int:
        observed, counted = _counting(rows)
        is_whole = self._sink.mode is OutputMode.COMPLETE
        writer = observed.write.format(self._format).mode("overwrite" if is_whole else "append")
        writer.options(**self._options).option("headgate.batch", batch).save()
        return counted()


class Discarded:
    """The `blackhole` sink."""

    def write(self, rows: DataFrame, batch: int) -> int:
        observed, counted = _counting(rows)
        observed.write.format("noop").mode("overwrite").save()
        return counted()


class Shown:
    """The `console` sink: the first rows of each batch, as text."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show

    def write(self, rows: DataFrame, batch: int) -> int:
        found = rows.collect()
        if found:
            lines = [f"batch {batch}: {len(found)} rows", " | ".join(rows.columns)]
            lines += [" | ".join(str(value) for value in row) for row in found[:_ROWS_SHOWN]]
            self._show("\n".join(lines))
        return len(found)


class Shared:
    """Several sinks that are given what each needs of the same rows, which are computed once.

    One that has its rows already, since the batch is replayed, leaves them alone.
    """

    def __init__(self, sinks: Sequence[tuple[Callable[[DataFrame], DataFrame], BatchSink]]) -> None:
        self._sinks = sinks

    def write(self, rows: DataFrame, batch: int) -> int:
        kept = rows.persist()
        try:
            return sum(sink.write(rows_for(kept), batch) for rows_for, sink in self._sinks)
        finally:
            kept.unpersist()


def _counting(rows: DataFrame) -> tuple[DataFrame, Callable[[], int]]:
    """The same rows, counted as they pass: call the second when they have."""
    observation = Observation(f"rows-{uuid4().hex}")
    observed = rows.observe(observation, sql.count(sql.lit(1)).alias("rows"))
    return observed, lambda: int(observation.get["rows"])


def _with_rows(staged: Path, file_format: FileFormat) -> list[Path]:
    """The files Spark wrote that are not empty: it writes one for an empty partition 0."""
    files = [
        path
        for path in sorted(staged.rglob("*"))
        if path.is_file() and not path.name.startswith((".", "_"))
    ]
    if file_format is FileFormat.PARQUET:
        return [path for path in files if pyarrow.parquet.read_metadata(path).num_rows > 0]
    if file_format is FileFormat.ORC:
        return [path for path in files if pyarrow.orc.ORCFile(path).nrows > 0]
    return [path for path in files if path.stat().st_size > 0]
