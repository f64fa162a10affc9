"""Reads what Spark measured of the tasks of streaming queries, from the status store of its driver.

The store is there although Spark's web pages are off. Each Spark job and each stage is fetched by
its number as JSON, in one call: one call for each figure would take longer than small batches. Jobs
have ascending numbers, so only new jobs are asked for. The reader works in the thread that asks for
progress, never in that of a batch, and at most once in `_EVERY` seconds. It reads `_MOST_JOBS` jobs
at a time; if there are more, the older ones are left out, and with them the figures of their
batches.

All of it is private to Spark. Where something is missing, the reader gives up, once, and there are
no figures.
"""

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Lock
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from taskrunner import logs
from taskrunner.core.spark_stages import NodeKind, SparkPlanNode
from taskrunner.core.task_meter import SparkJobRun, SparkTask, StageRun

_EVERY = 2.0
_MOST_JOBS = 64
_MOST_TASKS = 2000
"""Of one stage; a stage with more is not read."""
_MOST_NODES = 2000
_MOST_FAILURES = 3
_KEPT_JOBS = 256
_MOST_RUNS = 1024
_BATCH = re.compile(r"\bbatch = (\d+)\b")
_TIME = "%Y-%m-%dT%H:%M:%S.%fGMT"
_SHUFFLES = frozenset({"ShuffleExchangeExec"})
_ELSEWHERE = frozenset({"BroadcastExchangeExec", "ReusedExchangeExec", "AdaptiveSparkPlanExec"})
log = logs.get("task_metrics")


@dataclass(slots=True)
class RunOfQuery:
    """What was read of the jobs of one run of a query."""

    ended: list[SparkJobRun] = field(default_factory=list)
    """Jobs that nobody has taken yet."""
    under_way: set[int] = field(default_factory=set)
    """Batches with a job that had not ended."""


class TaskMetricsReader:
    """Reads the jobs of all queries of one attempt, or of all attempts of a shared process. Any
    thread may ask.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._store: Any = None
        self._mapper: Any = None
        self._next_job: int | None = None
        self._running: set[int] = set()
        """Jobs before `_next_job` that had not ended when they were read."""
        self._read_at = float("-inf")
        self._failures = 0
        self._runs: dict[str, RunOfQuery] = {}
        self.complete_until_ms = 0
        """Jobs that ended before this time, by the wall clock, were read."""
        self._lock = Lock()

    def begin(self) -> None:
        """Leave out the jobs that the session has run before."""
        with self._lock:
            self._guarded(self._open)

    def begin_once(self) -> None:
        """Do the same, unless another attempt has begun."""
        with self._lock:
            if self._next_job is None:
                self._guarded(self._open)

    def take(self, run: str) -> RunOfQuery:
        """Return the jobs of a query's run that have ended since the last call."""
        with self._lock:
            now = time.monotonic()
            if self._next_job is not None and now - self._read_at >= _EVERY:
                self._read_at = now
                self._guarded(self._read)
            return self._runs.pop(run, RunOfQuery())

    def _guarded(self, do: Callable[[], None]) -> None:
        if self._failures >= _MOST_FAILURES:
            return
        try:
            do()
            self._failures = 0
        except Exception as error:  # figures must never harm the query
            self._failures += 1
            reason = f"{type(error).__name__}: {error}"[:500]
            log.warning("tasks_not_measured", reason=reason, tries=self._failures)

    def _open(self) -> None:
        context: Any = self._spark.sparkContext._jsc.sc()
        jvm: Any = self._spark._jvm
        self._store = context.statusStore()
        self._mapper = jvm.org.apache.spark.status.api.v1.JacksonMessageWriter().mapper()
        self._next_job = context.dagScheduler().numTotalJobs()

    def _read(self) -> None:
        assert self._next_job is not None
        began_at_ms = int(time.time() * 1000)
        context: Any = self._spark.sparkContext._jsc.sc()
        known = context.dagScheduler().numTotalJobs()
        first = max(self._next_job, known - _MOST_JOBS)
        again = sorted(self._running)[-_MOST_JOBS:]
        self._running.clear()
        for one in self._runs.values():
            one.under_way.clear()
        # a job that Spark does not know yet raises an error, and is asked for again
        for number in [*again, *range(first, known)]:
            self._next_job = max(self._next_job, number)
            self._take(number)
        self._next_job = known
        self.complete_until_ms = began_at_ms

    def _take(self, number: int) -> None:
        job = self._json(self._store.job(number))
        batch = _BATCH.search(job.get("description") or "")
        if batch is None or not job.get("jobGroup"):
            return
        run = self._runs.setdefault(str(job["jobGroup"]), RunOfQuery())
        if len(self._runs) > _MOST_RUNS:  # of a query that has ended, and nobody asks any more
            del self._runs[next(iter(self._runs))]
        if job["status"] in ("RUNNING", "UNKNOWN"):
            self._running.add(number)
            run.under_way.add(int(batch[1]))
        else:
            run.ended.append(self._run_of(job, int(batch[1])))
            del run.ended[:-_KEPT_JOBS]

    def _run_of(self, job: Mapping[str, Any], batch: int) -> SparkJobRun:
        return SparkJobRun(
            batch=batch,
            stages=tuple(self._stage(number) for number in job["stageIds"]),
            ended_at_ms=_milliseconds(job.get("completionTime")),
            number=int(job["jobId"]),
        )

    def _stage(self, number: int) -> StageRun:
        stage = self._store.lastStageAttempt(number)
        found = self._json(stage)
        partitions = int(found["numTasks"])
        is_read = found["status"] == "COMPLETE" and partitions <= _MOST_TASKS
        tasks: Sequence[Mapping[str, Any]] = ()
        if is_read:
            tasks = self._json(
                self._store.taskList(number, int(found["attemptId"]), 2 * _MOST_TASKS)
            )
        return StageRun(
            partitions=partitions,
            rdds=tuple(sorted(map(int, found["rddIds"]))),
            tasks=tuple(_task(one) for one in tasks),
        )

    def _json(self, value: Any) -> Any:
        return json.loads(self._mapper.writeValueAsString(value))


_shared: list[TaskMetricsReader] = []
_sharing = Lock()


def shared_reader(spark: SparkSession) -> TaskMetricsReader:
    """Return the reader of this process, whose attempts all run in the same Spark: each would read
    the jobs of all others. It has begun.
    """
    with _sharing:
        if not _shared:
            _shared.append(TaskMetricsReader(spark))
    _shared[0].begin_once()
    return _shared[0]


def _milliseconds(text: str | None) -> int:
    """Read a time of Spark's, such as `2026-11-18T10:15:42.600GMT`."""
    if not text:
        return 0
    return int(datetime.strptime(text, _TIME).replace(tzinfo=UTC).timestamp() * 1000)


def _task(told: Mapping[str, Any]) -> SparkTask:
    measured = told.get("taskMetrics") or {}
    read = measured.get("inputMetrics") or {}
    written = measured.get("outputMetrics") or {}
    fetched = measured.get("shuffleReadMetrics") or {}
    shuffled = measured.get("shuffleWriteMetrics") or {}
    return SparkTask(
        partition=int(told.get("partitionId", told["index"])),
        run_ms=int(measured.get("executorRunTime", 0)),
        input_records=int(read.get("recordsRead", 0)),
        input_bytes=int(read.get("bytesRead", 0)),
        shuffle_read_records=int(fetched.get("recordsRead", 0)),
        shuffle_read_bytes=int(fetched.get("localBytesRead", 0))
        + int(fetched.get("remoteBytesRead", 0)),
        shuffle_write_records=int(shuffled.get("recordsWritten", 0)),
        shuffle_write_bytes=int(shuffled.get("bytesWritten", 0)),
        output_records=int(written.get("recordsWritten", 0)),
        output_bytes=int(written.get("bytesWritten", 0)),
        has_succeeded=told.get("status") == "SUCCESS",
    )


def execution_of_batch(query: StreamingQuery) -> Any:
    """Return Spark's execution of the batch under way; None: unknown. Called in the batch's thread:
    there the batch was surely planned, and nobody plans it twice.
    """
    try:
        execution: Any = query._jsq.streamingQuery()
        return execution.lastExecution()
    except Exception as error:  # figures must never harm the query
        log.debug("plan_not_known", reason=f"{type(error).__name__}: {error}"[:200])
        return None


def spark_plan_of(execution: Any) -> SparkPlanNode:
    """Return the plan of a batch."""
    return _node(execution.executedPlan(), [_MOST_NODES])


def rdd_of_batch(rows: Any) -> int | None:
    """Return the number of the data set that has the rows of a batch; None: unknown."""
    try:
        return int(rows._jdf.queryExecution().logical().rdd().id())
    except Exception as error:  # figures must never harm the query
        log.debug("rdd_not_known", reason=f"{type(error).__name__}: {error}"[:200])
        return None


def _node(node: Any, left: list[int]) -> SparkPlanNode:
    left[0] -= 1
    if left[0] < 0:
        raise ValueError(f"the plan has more than {_MOST_NODES} nodes")
    name = str(node.getClass().getSimpleName())
    if name in _ELSEWHERE:
        return SparkPlanNode(NodeKind.ELSEWHERE)
    children = node.children()
    return SparkPlanNode(
        kind=NodeKind.SHUFFLE if name in _SHUFFLES else NodeKind.OTHER,
        state_operator=_state_operator(node),
        inputs=tuple(_node(children.apply(n), left) for n in range(children.size())),
    )


def _state_operator(node: Any) -> int | None:
    try:
        info = node.stateInfo()
    except Py4JError:  # most nodes have none
        return None
    return int(info.get().operatorId()) if info.isDefined() else None
