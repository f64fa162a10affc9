"""How the sink of a connector is opened: the entry of a connector, and what it gets.

A module of `taskrunner.spark.connectors` that writes has a tuple `WRITERS`; `registry` collects
them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from pyspark.sql import DataFrame, SparkSession

from jobmanager.core.graph.connectors.sink_connector import SinkConnector
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.ids import AttemptNumber, JobId
from taskrunner.core.failures import Explain, no_explanation
from taskrunner.sinks.directory import Guard
from taskrunner.snapshots.layout import JobLayout
from taskrunner.spark.connectors.batch_sink import BatchSink

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


def _any_rows(sink: Sink, connector: SinkConnector, rows: DataFrame) -> None:
    pass


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
