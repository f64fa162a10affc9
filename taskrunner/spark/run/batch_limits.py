"""Limits what the next batch of a query reads, so that batches take about the target time.

Spark asks each source for its limit once, when a query starts, and then keeps the limits in a
field of the query. That field is replaced here between two batches. A private API, so it may be
missing: then the limits stay those of the start.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.graph.sources import Source
from jobmanager.core.ids import RegionId, VertexId
from jobmanager.core.plan import spark_order
from taskrunner import logs
from taskrunner.core.batch_limit import BatchLimit, LimitUnit
from taskrunner.snapshots.spark_log import SparkLog
from taskrunner.spark.connectors.reading import BatchSizing
from taskrunner.spark.connectors.registry import READERS

_log = logs.get("batches")


@dataclass(slots=True)
class _LimitedSource:
    vertex: VertexId
    number: int
    """Spark's number of the source: its line in the files of `offsets`."""
    sizing: BatchSizing[Any]
    limit: BatchLimit


class BatchLimits:
    """The limits of one query's sources, of those whose graph leaves the size of batches open."""

    def __init__(
        self, spark: SparkSession, graph: JobGraph, region: RegionId, log: SparkLog
    ) -> None:
        self._spark = spark
        self._log = log
        self._target = graph.execution.target_batch_time
        self._sources = _limited(graph, region) if graph.execution.limits_batches else []
        self._is_first = True

    def started(self) -> None:
        """A query starts, with the first limits again."""
        self._is_first = True
        for one in self._sources:
            one.limit = BatchLimit.first(one.sizing.unit)

    def adapt(self, query: StreamingQuery | None, batch: int, took: timedelta) -> None:
        """Called in the query's own thread, when a batch has been written."""
        is_first, self._is_first = self._is_first, False
        changed = {}
        for one in self._sources:
            taken = self._taken(one, batch)
            if is_first and not one.limit.is_reached_by(taken):
                continue  # it took long because the JVM is new
            limit = one.limit.after(taken, took, self._target)
            if limit != one.limit:
                _log.info(
                    "limit of batches changed",
                    source=one.vertex,
                    unit=one.limit.unit,
                    before=one.limit.most,
                    now=limit.most,
                    batch=batch,
                    taken=taken,
                    seconds=round(took.total_seconds(), 1),
                )
                one.limit = changed[one.number] = limit
        if changed and query is not None and not self._apply(query, changed):
            _log.warning("this Spark has no way to change the limit of batches: it stays")
            self._sources = []

    def _taken(self, source: _LimitedSource, batch: int) -> int | None:
        """How much of the source the batch took; None: the source cannot tell."""
        try:
            end = self._log.offsets(batch).offsets[source.number]
            start = self._log.offsets(batch - 1).offsets[source.number] if batch else None
            place = self._log.directory / "sources" / str(source.number)
            return 0 if end is None or end == start else source.sizing.taken(start, end, place)
        except (OSError, ValueError):
            return None  # an old batch was deleted, or an input file

    def _apply(self, query: StreamingQuery, changed: dict[int, BatchLimit]) -> bool:
        try:
            execution: Any = query._jsq.streamingQuery()
            streams, limits = execution.sources(), execution.uniqueSources()
            for number, limit in changed.items():
                limits = limits.updated(streams.apply(number), self._read_limit(limit))
            getattr(execution, "uniqueSources_$eq")(limits)
        except (Py4JError, AttributeError, TypeError):
            return False
        return True

    def _read_limit(self, limit: BatchLimit) -> Any:
        jvm: Any = self._spark._jvm
        limits = jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit
        return (
            limits.maxBytes(limit.most)
            if limit.unit is LimitUnit.BYTES
            else limits.maxRows(limit.most)
        )


def _limited(graph: JobGraph, region: RegionId) -> list[_LimitedSource]:
    found = []
    for number, vertex in enumerate(spark_order.sources(graph, VertexId(region))):
        source = graph.vertex(vertex)
        assert isinstance(source, Source)
        sizing = READERS[type(source.connector)].sizing
        if sizing is not None and sizing.is_open(source, source.connector):
            found.append(_LimitedSource(vertex, number, sizing, BatchLimit.first(sizing.unit)))
    return found
