"""The sinks: they write the rows of one batch. Each sink computes the batch exactly once."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sql

from jobmanager.core.graph.output_mode import OutputMode
from jobmanager.core.graph.sinks import FilesSink, PythonSink, Sink
from taskrunner.core.staged_rows import BatchCount
from taskrunner.sinks.directory import Guard, SinkDirectory
from taskrunner.sinks.staged_files import staged_files, tells_rows
from taskrunner.spark.compile import python_connectors

_ROWS_SHOWN = 20
_PARTITION = "__headgate_partition"


class BatchSink(Protocol):
    def write(self, rows: DataFrame, batch: int) -> int:
        """Writes the rows of a batch; returns how many there were."""
        ...


class FencedBatches:
    """Any sink: an attempt that was replaced begins no batch, with or without rows. The sink itself
    publishes inside of the fence if it can; where that is users' code, this is all there is.
    """

    def __init__(self, sink: BatchSink, check: Callable[[], None]) -> None:
        self._sink = sink
        self._check = check
        """Raises if the attempt may not begin a batch."""

    def write(self, rows: DataFrame, batch: int) -> int:
        self._check()
        return self._sink.write(rows, batch)


class ExactlyOnceFiles:
    """The `files` sink. A replayed batch is computed (its state is needed), but not written."""

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
        observed, counted = _counted(rows, by_partition=not tells_rows(self._files.format))
        writer = observed.write.format(self._files.format).options(**self._sink.options)
        if self._files.partition_by:
            writer = writer.partitionBy(*self._files.partition_by)
        writer.save(staged.as_uri())
        count = counted()
        files = staged_files(staged, self._files.format)
        self._directory.commit(batch, staged, count, files, self._is_held)
        return count.rows


class PythonWriter:
    """The `python` sink: its class has to cope with repeated batches.

    Its options have job, attempt, region and batch, so that it can recognise a repetition, and an
    attempt that was replaced.
    """

    def __init__(
        self, sink: Sink, python: PythonSink, spark: SparkSession, told: Mapping[str, str]
    ) -> None:
        self._sink = sink
        self._options = {**sink.options, **told, "headgate.region": str(sink.id)}
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

    def __init__(self, show: Callable[[str], None], guard: Guard) -> None:
        self._show = show
        self._guard = guard

    def write(self, rows: DataFrame, batch: int) -> int:
        found = rows.collect()
        if found:
            lines = [f"batch {batch}: {len(found)} rows", " | ".join(rows.columns)]
            lines += [" | ".join(str(value) for value in row) for row in found[:_ROWS_SHOWN]]
            with self._guard():
                self._show("\n".join(lines))
        return len(found)


class Shared:
    """Several sinks that share the same rows, which are computed once.

    In a replayed batch, a sink that already has its rows does not write them again.
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
    """The same rows, counted while they are written; call the returned function afterwards."""
    observation = Observation(f"rows-{uuid4().hex}")
    observed = rows.observe(observation, sql.count(sql.lit(1)).alias("rows"))
    return observed, lambda: int(observation.get["rows"])


def _counted(rows: DataFrame, *, by_partition: bool) -> tuple[DataFrame, Callable[[], BatchCount]]:
    """As `_counting`, and on request also the partitions that had rows: Spark puts the partition's
    number into the names of the files.
    """
    if not by_partition:
        observed, counted = _counting(rows)
        return observed, lambda: BatchCount(counted())
    observation = Observation(f"rows-{uuid4().hex}")
    numbered = rows.withColumn(_PARTITION, sql.spark_partition_id())
    observed = numbered.observe(
        observation,
        sql.count(sql.lit(1)).alias("rows"),
        sql.collect_set(_PARTITION).alias("partitions"),
    ).drop(_PARTITION)

    def count() -> BatchCount:
        found = observation.get
        return BatchCount(int(found["rows"]), frozenset(map(int, found["partitions"])))

    return observed, count
