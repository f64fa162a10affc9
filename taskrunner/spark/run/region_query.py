"""One region's streaming query: start, stop at a batch boundary, drain.

    RUNNING ──all input was read──▶ DRAINING ──last windows emitted──▶ FINISHED
       └──asked to stop──▶ STOPPED           any ──query failed──▶ FAILED

A bounded region without windows has nothing to drain and goes to FINISHED at once.
"""

import time
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import replace
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from jobmanager.core.durations import milliseconds
from jobmanager.core.graph.connectors.source_connector import SourceConnector
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.graph.scripts import Script
from jobmanager.core.graph.sources import Source
from jobmanager.core.ids import RegionId, VertexId
from jobmanager.core.plan.job_plan import Region
from jobmanager.core.progress import RegionProgress
from taskrunner.core.end_of_time import END_OF_TIME_MS
from taskrunner.core.stall_detector import waits_for_input
from taskrunner.snapshots.snapshot import offsets_by_source
from taskrunner.snapshots.spark_log import SparkLog
from taskrunner.spark.compile.accumulators import Totals
from taskrunner.spark.connectors.batch_sink import BatchWriter
from taskrunner.spark.connectors.refreshes import Refreshes
from taskrunner.spark.run.batch_limits import BatchLimits
from taskrunner.spark.run.input_files import InputFiles
from taskrunner.spark.run.progress import ProgressMeter
from taskrunner.spark.run.task_progress import TaskProgress
from taskrunner.spark.session import callback_connections
from taskrunner.spark.session.hadoop_path import hadoop_path

_NO_DATA_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"
_POLL_SECONDS = 0.02
_LOOK_MS = 1000
_BOUNDARY = timedelta(minutes=10)
"""How long the last batches of a bounded region may take."""


class QueryPhase(StrEnum):
    RUNNING = "running"
    DRAINING = "draining"
    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"


class RegionQuery:
    """The query of one region in one attempt. One thread drives it by calling `poll`."""

    def __init__(
        self,
        spark: SparkSession,
        graph: JobGraph,
        region: Region,
        rows: DataFrame,
        sink: BatchWriter,
        spark_checkpoint_dir: Path,
        inputs: InputFiles | None = None,
        refreshes: Refreshes | None = None,
        tasks: TaskProgress | None = None,
    ) -> None:
        """`inputs`: what is looked at before each batch; None: the job may read any file.
        `tasks`: measures Spark's tasks; None: nobody does.
        """
        self.region = region
        self.log = SparkLog(spark_checkpoint_dir)
        self.phase = QueryPhase.RUNNING
        self.error: BaseException | None = None
        self.output_rows = 0
        self.query: StreamingQuery | None = None
        self._spark = spark
        self._graph = graph
        self._rows = rows
        self._sink = sink
        self._inputs = inputs
        self._refreshes = refreshes or Refreshes()
        self._tasks = tasks
        self._meter = ProgressMeter(graph, region.id, self.log)
        self._connectors = _connectors(graph, region)
        vertices = [graph.vertex(vertex) for vertex in region.streamed]
        self._waits = any(one.waits_for_time for one in vertices)
        self._has_clock = any(one.goes_by_the_clock for one in vertices)
        self._totals = Totals(spark, region.id, spark_checkpoint_dir)
        self._limits = BatchLimits(spark, graph, region.id, self.log)
        self._script = next((one for one in vertices if isinstance(one, Script)), None)
        self._is_last = False
        """Whether the batch under way is to be the last."""
        self._context = copy_context()

    @property
    def id(self) -> RegionId:
        return self.region.id

    def start(self, *, one_batch: bool = False) -> None:
        """Starts the query from its checkpoint directory, for all batches or just the next."""
        # other queries have nothing to emit when time passes without rows
        self._spark.conf.set(_NO_DATA_BATCHES, str(self._waits).lower())
        writer = (
            self._rows.writeStream.queryName(f"{self.id}-{uuid4().hex[:8]}")
            .outputMode(self.region.output_mode)
            .option("checkpointLocation", hadoop_path(self.log.directory))
            .foreachBatch(self._take_batch)
        )
        interval = milliseconds(self._batch_interval)
        if self._has_clock and not interval:
            # for processing time Spark would run trigger after trigger, without a pause
            interval = _LOOK_MS
        if one_batch:
            writer = writer.trigger(once=True)
        elif self._ends_by_itself:
            writer = writer.trigger(availableNow=True)
        elif interval:
            writer = writer.trigger(processingTime=f"{interval} milliseconds")
        self._is_last = False
        self._limits.started()
        self._totals.begin()
        if self.query is None:
            self._totals.restore(self.log.last_committed())
        self.query = writer.start()

    def poll(self) -> QueryPhase:
        """Makes the transitions that are due, and returns the state."""
        if self.phase in (QueryPhase.RUNNING, QueryPhase.DRAINING):
            self._refreshes.run_due(time.monotonic())
            if not self._is_active():
                self._note_end()
            elif self.region.is_bounded and self._is_exhausted():
                self._finish()
        return self.phase

    def ask_to_stop(self) -> bool:
        """Makes the batch under way the last. False: this Spark cannot do that; use `stop`."""
        if self.query is None or not self._is_active():
            return True
        self._is_last = True
        return _terminate_after_batch(self._spark, self.query)

    def stop(self) -> None:
        """Stops the query, in the middle of a batch if necessary."""
        self._is_last = False
        if self.query is not None:
            self.query.stop()
        if self.phase in (QueryPhase.RUNNING, QueryPhase.DRAINING):
            self.phase = QueryPhase.STOPPED

    def has_ended(self, within: timedelta) -> bool:
        """Whether the query ended in time, by itself or on request; it may have failed."""
        if not self._await(within):
            return False
        if self.error is not None or (self.query and self.query.exception() is not None):
            self._fail()
        return True

    def drain_one_batch(self, mark: Callable[[int], None]) -> bool:
        """Starts the batch that emits every open window, or a batch that has to precede it.

        False: there is nothing more to emit. The query must have ended. `mark` is called with
        the last batch before the drain.
        """
        last = self.log.last_committed()
        if not self._waits or last is None or self._is_drained():
            return False
        if self.log.last_begun() == last:
            mark(last)
            self.log.begin_last_batch(clocks_too=self._has_clock)
        self.start(one_batch=True)
        return True

    def progress(self) -> RegionProgress:
        is_active = self.phase in (QueryPhase.RUNNING, QueryPhase.DRAINING)
        found = self._meter.read(self.query, is_active, self.output_rows)
        is_idle = found.is_idle or self.phase is QueryPhase.FINISHED
        subtasks = (
            self._tasks.read(self.query, found.input_rows, found.output_rows) if self._tasks else []
        )
        return replace(found, is_idle=is_idle, accumulators=self._totals.read(), subtasks=subtasks)

    @property
    def is_idle(self) -> bool:
        """Whether the query waits for input."""
        status = self.query.status if self.query is not None else None
        return status is not None and waits_for_input(
            str(status["message"]), has_data=bool(status["isDataAvailable"])
        )

    def checkpointed(self, batch: int) -> None:
        """Note that a recovery would go back to this batch at most."""
        self._meter.checkpointed(batch)

    def offsets(self) -> dict[VertexId, Any]:
        """Each source's offset after the last committed batch."""
        batch = self.log.last_committed()
        return {} if batch is None else offsets_by_source(self._graph, self.id, self.log, batch)

    def _take_batch(self, rows: DataFrame, batch: int) -> None:
        """Called by a thread of Spark, which has no context of its own."""
        callback_connections.note(self._spark)
        self._context.copy().run(self._write_batch, rows, batch)

    def _write_batch(self, rows: DataFrame, batch: int) -> None:
        try:
            if self._is_last:
                _forget_interrupt(self._spark)
            if self._inputs is not None:
                self._inputs.check()
            began = time.monotonic()
            self.output_rows += self._sink.write(rows, batch)
            self._totals.add(batch)
            if self._tasks is not None:
                self._tasks.written(batch, rows, self.query, self._sink.jobs_of_batch)
            self._limits.adapt(self.query, batch, timedelta(seconds=time.monotonic() - began))
        except BaseException as error:
            self.error = error  # the original Python exception: the JVM returns only its text
            raise

    def _is_active(self) -> bool:
        return self.query is not None and bool(self.query.isActive)

    def _is_exhausted(self) -> bool:
        committed = self.offsets()
        return all(
            one.is_exhausted(committed.get(vertex)) for vertex, one in self._connectors.items()
        )

    def _finish(self) -> None:
        """After all input was read: emits open windows, then ends at a boundary."""
        if self._waits and not self._is_drained():
            if self.phase is QueryPhase.RUNNING:
                self._begin_draining()
            return
        self._end_at_boundary()
        if self.phase is not QueryPhase.FAILED:
            self.phase = QueryPhase.FINISHED

    def _is_drained(self) -> bool:
        batch = self.log.last_committed()
        return batch is not None and self.log.offsets(batch).watermark_ms >= END_OF_TIME_MS

    def _begin_draining(self) -> None:
        self._end_at_boundary()
        if self.phase is QueryPhase.FAILED:
            return
        if self.log.last_begun() == self.log.last_committed():
            self.log.begin_last_batch(clocks_too=self._has_clock)
            self.phase = QueryPhase.DRAINING
        self.start()

    def _end_at_boundary(self) -> None:
        if self.ask_to_stop():
            self._await(_BOUNDARY)
        if self.query is not None:
            error = self.query.exception()
            self.query.stop()
            if error is not None:
                self._fail()

    @property
    def _batch_interval(self) -> timedelta:
        if self._script is not None and self._script.batch_interval is not None:
            return self._script.batch_interval
        return self._graph.execution.batch_interval

    @property
    def _ends_by_itself(self) -> bool:
        return self._script is not None and self._script.available_now

    def _note_end(self) -> None:
        """Records the end of the query: it has read all available input, or has failed."""
        error = self.query.exception() if self.query is not None else None
        if self._ends_by_itself and self.query is not None and error is None:
            self._await(_BOUNDARY)
            self.phase = QueryPhase.FINISHED
        else:
            self._fail()

    def _fail(self) -> None:
        self.phase = QueryPhase.FAILED
        if self.error is None and self.query is not None:
            self.error = self.query.exception() or RuntimeError("the query ended by itself")

    def _await(self, within: timedelta) -> bool:
        """Whether the query's thread ended in time.

        `isActive` and `awaitTermination` report the end as soon as it was requested, long before.
        """
        deadline = time.monotonic() + within.total_seconds()
        while self.query is not None and _has_thread(self.query):
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True


def _connectors(graph: JobGraph, region: Region) -> dict[VertexId, SourceConnector]:
    sources = (graph.vertex(vertex) for vertex in region.sources)
    return {one.id: one.connector for one in sources if isinstance(one, Source)}


def _has_thread(query: StreamingQuery) -> bool:
    """Whether the thread that runs the batches is alive. A private API, so it may be missing."""
    try:
        execution: Any = query._jsq.streamingQuery()
        return bool(execution.queryExecutionThread().isAlive())
    except (Py4JError, AttributeError, TypeError):
        return bool(query.isActive)


def _forget_interrupt(spark: SparkSession) -> None:
    """Clears the interrupt of the batch's thread, which calls this, so that the batch continues.

    Spark interrupts itself when it has planned a batch and finds that the query is to end.
    """
    jvm: Any = spark._jvm
    jvm.java.lang.Thread.interrupted()


def _terminate_after_batch(spark: SparkSession, query: StreamingQuery) -> bool:
    """Ends the query's loop after the batch under way. A private API, so it may be missing."""
    try:
        jvm: Any = spark._jvm
        execution: Any = query._jsq.streamingQuery()
        runtime = jvm.org.apache.spark.sql.execution.streaming.runtime
        terminated = getattr(getattr(runtime, "TERMINATED$"), "MODULE$")
        execution.state().set(terminated)
    except (Py4JError, AttributeError, TypeError):
        return False
    return True
