"""How the sink of a connector is opened: the entry of a connector, and what it gets.

A module of `taskrunner.spark.connectors` that writes has a tuple `WRITERS`; `registry` collects
them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from jobmanager.core.graph.connectors.sink_connector import SinkConnector
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.ids import AttemptNumber, JobId
from taskrunner.core.failures import Explain, no_explanation
from taskrunner.sinks.directory import Guard
from taskrunner.sinks.output_files import FilesOf, local_files
from taskrunner.snapshots.layout import JobLayout
from taskrunner.spark.connectors.batch_sink import BatchSink
from taskrunner.spark.connectors.reading_back import LastRows, ReadBackContext

K = TypeVar("K", bound=SinkConnector)


@dataclass(frozen=True, slots=True)
class WriteContext:
    """What the sinks of one attempt know of it."""

    spark: SparkSession
    graph: JobGraph
    job: JobId
    attempt: AttemptNumber
    parallelism: int
    resolve: Callable[[str], Path]
    """Resolves a path in the graph. Raises `PathNotAllowed`."""
    layout: JobLayout
    guard: Guard
    """Keeps newer attempts out during a block, or raises `Superseded`: output is published inside
    of it.
    """
    guard_of: Callable[[JobId], Guard]
    """The same against all attempts of another job, which has ended: raises that job's epoch."""
    script_sink: Callable[[Sink], BatchSink]
    """What a script does with its batches."""


@dataclass(frozen=True, slots=True)
class OutputPlaces:
    """Where a job keeps its output: known before Spark runs."""

    job: JobId
    layout: JobLayout
    resolve: Callable[[str], Path]
    """Resolves a path in the graph. Raises `PathNotAllowed`."""
    files_of: FilesOf = local_files
    """The operations on the directory of a files sink; remote directories need a Spark session."""


def _any_rows(sink: Sink, connector: SinkConnector, rows: DataFrame) -> None:
    pass


def _nothing_lost(sink: Sink, connector: SinkConnector, places: OutputPlaces) -> Mapping[int, str]:
    return {}


@dataclass(frozen=True, slots=True)
class SinkWriter(Generic[K]):
    """How the sinks of one connector are opened."""

    connector: type[K]
    open: Callable[[Sink, K, WriteContext], BatchSink]
    """Opens a sink for an attempt; nothing is changed at the output yet. Raises `VertexRefused`."""
    check_rows: Callable[[Sink, K, DataFrame], None] = _any_rows
    """Refuses rows by their schema that Spark would refuse only when a batch is written. Also
    called in the analysis of a submitted graph. Raises `VertexRefused`.
    """
    explain: Explain = no_explanation
    """What a failure of a query means, if it comes from such a sink, and what to do."""
    lost_batches: Callable[[Sink, K, OutputPlaces], Mapping[int, str]] = _nothing_lost
    """Batches that such a sink has committed and cannot publish, each with the reason: they have to
    be run again. Asked before the state to start from is chosen. Only looks.
    """
    withdraws: bool = False
    """Whether its sinks have `BatchSink.withdraw`: then a change of the job that is rolled back
    leaves no rows in a table that only the change named.
    """
    pass_on: Callable[[Sink, K, DataFrame, WriteContext], DataStreamWriter] | None = None
    """Spark's own writer of a stream, with format and options: in real-time mode each row passes
    at once, and `BatchSink.write` is never called. None: the connector cannot be used so.
    """
    last_rows: Callable[[Sink, K, ReadBackContext, int], LastRows] | None = None
    """Reads so many of the newest rows of a sink. Raises `CannotReadBack`. None: such output is
    read by other tools only.
    """
