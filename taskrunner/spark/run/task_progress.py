"""The figures of a region's tasks, from what Spark measured of the batches that its sink wrote."""

import time
from collections import deque
from collections.abc import Collection
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.ids import VertexId
from jobmanager.core.plan import spark_order
from jobmanager.core.plan.job_plan import Region, plan_of
from jobmanager.core.progress import SubtaskProgress
from taskrunner import logs
from taskrunner.core.spark_stages import roles, stages_of_region, stages_of_spark
from taskrunner.core.task_meter import BatchWritten, SparkJobRun, TaskMeter
from taskrunner.spark.run.task_metrics import (
    TaskMetricsReader,
    execution_of_batch,
    rdd_of_batch,
    spark_plan_of,
)

_MOST_BATCHES = 256
"""Batches that wait for their figures; older ones are left out."""
log = logs.get("task_metrics")


class TaskProgress:
    """Measures the tasks of one region over one attempt. The thread of the batches calls `written`,
    the thread that asks for progress calls `read`.
    """

    def __init__(
        self, graph: JobGraph, parallelism: int, region: Region, reader: TaskMetricsReader
    ) -> None:
        self._reader = reader
        self._keyed = spark_order.keyed(graph, VertexId(region.id))
        self._stages = stages_of_region(graph, plan_of(graph, parallelism), region)
        self._meter = TaskMeter(time.monotonic())
        self._written: deque[BatchWritten] = deque(maxlen=_MOST_BATCHES)
        self._jobs: dict[int, list[SparkJobRun]] = {}
        self._has_failed = False
        self._planned: Any = None
        """Spark's execution of a batch, until its plan was read."""

    def written(self, batch: int, rows: Any, query: StreamingQuery | None, jobs: range) -> None:
        """Called when the sink has written the batch. `jobs`: `BatchWriter.jobs_of_batch`."""
        rdd = rdd_of_batch(rows)
        if self._planned is None and query is not None and not self._meter.knows_stages:
            self._planned = execution_of_batch(query)
        if rdd is not None:
            self._written.append(BatchWritten(batch, rdd, int(time.time() * 1000), jobs))

    def read(
        self, query: StreamingQuery | None, input_rows: int, output_rows: int
    ) -> list[SubtaskProgress]:
        """Return the figures so far; none if Spark's tasks cannot be told apart."""
        if query is not None and not self._has_failed:
            try:
                self._look(query)
            except Exception as error:  # figures must never harm the query
                self._has_failed = True
                reason = f"{type(error).__name__}: {error}"[:500]
                log.warning("tasks_not_attributed", reason=reason)
        return self._meter.read(time.monotonic(), input_rows, output_rows)

    def _look(self, query: StreamingQuery) -> None:
        if not self._written:
            return
        if not self._meter.knows_stages:
            if self._planned is None:
                return
            plan = spark_plan_of(self._planned)
            self._meter.learn(roles(self._stages, stages_of_spark(plan, self._keyed)))
            self._planned = None
        found = self._reader.take(str(query.runId))
        for job in found.ended:
            self._jobs.setdefault(job.batch, []).append(job)
        while self._written and self._is_complete(self._written[0], found.under_way):
            done = self._written.popleft()
            self._meter.add(done, self._jobs.pop(done.batch, ()))
        oldest = self._written[0].batch if self._written else None
        for batch in [one for one in self._jobs if oldest is not None and one < oldest]:
            del self._jobs[batch]

    def _is_complete(self, written: BatchWritten, under_way: Collection[int]) -> bool:
        """Whether all jobs of a written batch were read."""
        is_read = written.ended_at_ms < self._reader.complete_until_ms
        return is_read and written.batch not in under_way
