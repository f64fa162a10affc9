"""How the source of a connector is read: the entry of a connector, and what it gets.

A module of `taskrunner.spark.connectors` that reads sources has a tuple `READERS`; `registry`
collects them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

from pyspark.sql import DataFrame, SparkSession

from jobmanager.core.graph.connectors.source_connector import SourceConnector
from jobmanager.core.graph.job_graph import Mode
from jobmanager.core.graph.sources import Source
from jobmanager.core.paths.location import Location
from jobmanager.core.progress import SourceProgress
from taskrunner.core.batch_limit import BatchLimit, LimitUnit
from taskrunner.core.failures import Explain, no_explanation
from taskrunner.snapshots.layout import JobLayout
from taskrunner.spark.connectors.refreshes import Refreshes
from taskrunner.spark.session.hadoop_path import hadoop_path

S = TypeVar("S", bound=SourceConnector)


@dataclass(frozen=True, slots=True)
class BatchSizing(Generic[S]):
    """How much of a source a batch may take, if the graph does not say so."""

    unit: LimitUnit
    is_set: Callable[[S], bool]
    """Whether a field of the source says how much a batch takes."""
    options: frozenset[str]
    """Options of Spark, in lower case, with which a graph can say so, too."""
    taken: Callable[[Any, Any, Path], int | None]
    """How much a batch took, from the source's offset before the batch (None: it was the first) and
    after, and the directory in which Spark logs what the source gave. None: it cannot be told.
    """

    def is_open(self, source: Source, connector: S) -> bool:
        """Whether the graph leaves the size of batches open."""
        named = (option.lower() for option in source.options)
        return not self.is_set(connector) and self.options.isdisjoint(named)


@dataclass(frozen=True, slots=True)
class ReadContext:
    """What the readers of one job's sources know of the job."""

    spark: SparkSession
    mode: Mode
    """STREAMING: the rows are to be a stream; BATCH: all rows at once, also of the static side of a
    join in a streaming job.
    """
    parallelism: int
    resolve: Callable[[str], Path]
    """Resolves a path in the graph. Raises `PathNotAllowed`."""
    layout: JobLayout
    started_at: datetime
    refreshes: Refreshes
    """What is to be read again while the job runs: static sides of joins."""
    is_trial: bool = False
    """Spark only analyses the graph, or runs one batch without input: no connection may be needed,
    and references to secrets are not replaced.
    """
    limits_batches: bool = False
    """Whether batches of sources whose graph sets no limit have one nevertheless."""

    def first_limit(self, source: Source, connector: S, sizing: BatchSizing[S]) -> int | None:
        """The limit of a stream's first batches; None: there is none."""
        if self.mode is not Mode.STREAMING or not self.limits_batches:
            return None
        return BatchLimit.first(sizing.unit).most if sizing.is_open(source, connector) else None

    def load(
        self,
        spark_format: str,
        schema: str | None,
        options: Mapping[str, str],
        path: Path | Location | None = None,
    ) -> DataFrame:
        """The rows of one of Spark's data sources, as a stream or all at once."""
        uri = None
        if path is not None:
            uri = hadoop_path(path) if isinstance(path, Path) else str(path)
        if self.mode is Mode.STREAMING:
            stream = self.spark.readStream.format(spark_format).options(**options)
            return (stream.schema(schema) if schema else stream).load(uri)
        reader = self.spark.read.format(spark_format).options(**options)
        return (reader.schema(schema) if schema else reader).load(uri)


def progress_of(vertex: str, report: Any) -> SourceProgress:
    """What Spark's report says of any source. A connector that measures more (a lag in seconds,
    lags of partitions) adds it with `dataclasses.replace`.
    """
    return SourceProgress(
        vertex=vertex,
        input_rows_per_second=finite_rate(report.inputRowsPerSecond),
        processed_rows_per_second=finite_rate(report.processedRowsPerSecond),
        backlog_rows=_backlog(report.metrics),
    )


def unreadable_metric(vertex: str) -> str:
    """The name under which a source counts, with `DataFrame.observe` and in the first column, the
    records of a batch that it could not decode.
    """
    return f"headgate-unreadable-{vertex}"


@dataclass(frozen=True, slots=True)
class SourceReader(Generic[S]):
    """How the sources of one connector are read."""

    connector: type[S]
    read: Callable[[Source, S, ReadContext], DataFrame]
    """The source's rows, without watermark. Computes nothing, also not in the analysis of a
    submitted graph. Raises `VertexRefused`.
    """
    progress: Callable[[str, Any], SourceProgress] = progress_of
    """From the vertex, and Spark's own report of the source (`sources` in a query's progress)."""
    checkpointed: Callable[[Source, S, Any, ReadContext], None] | None = None
    """Called after a checkpoint was completed, with Spark's offset of the source at the checkpoint.
    A failure is logged and nothing more.
    """
    partitions: Callable[[Source, S, SparkSession], int] | None = None
    """How many tasks read the source at the same time in real-time mode: asks the source itself.
    None: the connector cannot be used so.
    """
    explain: Explain = no_explanation
    """What a failure of a query means, if it comes from such a source, and what to do."""
    sizing: BatchSizing[S] | None = None
    """None: a batch takes all that such a source has."""


def _backlog(metrics: Mapping[str, str]) -> int | None:
    """The number of waiting rows, if the source counts them as Kafka's does."""
    waiting = metrics.get("avgOffsetsBehindLatest")
    partitions = metrics.get("numPartitions", "1")
    if waiting is None:
        return None
    try:
        return round(float(waiting) * int(partitions))
    except ValueError:
        return None


def finite_rate(value: float | None) -> float:
    """Spark divides by zero now and then; JSON has no NaN."""
    return round(value, 3) if value is not None and 0 <= value < float("inf") else 0.0
