"""One region's query in real-time mode: rows pass at once, an interval is one batch.

It differs from a query of micro-batches (`region_query`):

* Spark's own writer takes each row, so no code of ours runs for a batch. Whether the attempt may
  still write is asked in `poll` instead, and while the query is awaited.
* A batch lasts a whole interval, and so may a stop at a boundary.
* Each partition of a source needs a slot of its own. When there are more partitions than the
  session was made for, the attempt ends, and the next one counts them again.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from jobmanager.core.durations import milliseconds
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.ids import VertexId
from jobmanager.core.plan.job_plan import Region
from jobmanager.core.progress import RegionProgress
from taskrunner import logs
from taskrunner.snapshots.real_time_log import RealTimeLog
from taskrunner.spark.connectors.batch_sink import BatchSink
from taskrunner.spark.connectors.refreshes import Refreshes
from taskrunner.spark.run.region_query import QueryPhase, RegionQuery
from taskrunner.spark.session.hadoop_path import hadoop_path

_NO_ASYNC_LOG = ("asyncProgressTrackingEnabled", "false")
"""Spark would write the log of a stateless query behind its own back: a stop at a boundary could
find the last commit missing.
"""
_INTERRUPTED = ("InterruptedException", "ClosedByInterruptException", "was interrupted")
log = logs.get("real_time")


class PartitionsAdded(Exception):
    """A source has more partitions than the runner has slots for."""


class RealTimeQuery(RegionQuery):
    """The query of one region in one attempt. One thread drives it by calling `poll`."""

    def __init__(
        self,
        spark: SparkSession,
        graph: JobGraph,
        region: Region,
        rows: DataFrame,
        writer: Callable[[DataFrame], DataStreamWriter],
        check_attempt: Callable[[], None],
        spark_checkpoint_dir: Path,
        partitions: Mapping[VertexId, int],
        refreshes: Refreshes | None = None,
    ) -> None:
        """`check_attempt` raises if the attempt may not write any more. `partitions` are those of
        each source that there are slots for.
        """
        RegionQuery.__init__(
            self, spark, graph, region, rows, _NoBatches(), spark_checkpoint_dir, None, refreshes
        )
        self.log = RealTimeLog(spark_checkpoint_dir)
        self._writer = writer
        self._check_attempt = check_attempt
        self._partitions = partitions
        self._interval = graph.checkpointing.interval
        self._seen_batch = self.log.last_committed()

    def start(self, *, one_batch: bool = False) -> None:
        """Starts the query from its checkpoint directory."""
        self._check_attempt()
        interval = f"{milliseconds(self._interval)} milliseconds"
        name, value = _NO_ASYNC_LOG
        self._is_last = False
        self.query = (
            self._writer(self._rows)
            .queryName(f"{self.id}-{uuid4().hex[:8]}")
            .outputMode(self.region.output_mode)
            .option("checkpointLocation", hadoop_path(self.log.directory))
            .option(name, value)
            .trigger(realTime=interval)  # type: ignore[call-overload]  # PySpark forgot to type it
            .start()
        )

    def poll(self) -> QueryPhase:
        self._end_unless(self._check)
        return RegionQuery.poll(self)

    def has_ended(self, within: timedelta) -> bool:
        self._end_unless(self._check_attempt)
        if self.phase is QueryPhase.FAILED:
            return True
        if not self._await(within):
            return False
        error = self.query.exception() if self.query is not None else None
        if error is not None and self._is_last and _is_interrupt(str(error)):
            # it was to end while the next batch was planned: nothing of that has begun
            log.info("stopped_before_a_batch", region=self.id)
            return True
        return RegionQuery.has_ended(self, within)

    def progress(self) -> RegionProgress:
        self.output_rows = self._meter.written_rows
        found = RegionQuery.progress(self)
        # a batch is not stuck before its interval has ended
        usual = max(found.median_batch_ms, milliseconds(self._interval))
        return replace(found, median_batch_ms=usual, output_rows=self._meter.written_rows)

    def _end_unless(self, check: Callable[[], None]) -> None:
        """Ends a running query at once if it may not go on."""
        if self.phase is not QueryPhase.RUNNING:
            return
        try:
            check()
        except Exception as error:
            self.error = error
            self.phase = QueryPhase.FAILED
            if self.query is not None:
                self.query.stop()

    def _check(self) -> None:
        self._check_attempt()
        batch = self.log.last_committed()
        if batch != self._seen_batch:
            self._seen_batch = batch
            self._check_partitions()

    def _check_partitions(self) -> None:
        for source, offset in self.offsets().items():
            found, planned = _count(offset), self._partitions.get(source, 0)
            if found > planned:
                raise PartitionsAdded(
                    f"source {source!r} has {found} partitions now, and the runner has slots for "
                    f"{planned}: the job starts again with more"
                )


class _NoBatches(BatchSink):
    def write(self, rows: DataFrame, batch: int) -> int:
        raise NotImplementedError("no batch is written in real-time mode")


def _count(offset: Any) -> int:
    """The number of partitions in a Kafka source's offset: topic to partition to position."""
    return sum(len(one) for one in offset.values()) if isinstance(offset, dict) else 0


def _is_interrupt(message: str) -> bool:
    return any(one in message for one in _INTERRUPTED)
