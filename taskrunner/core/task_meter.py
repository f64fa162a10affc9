"""Adds up what Spark measured of its tasks, by task and subtask of the job's plan.

In a stage that keeps state, or that reads a shuffle with as many partitions as the task has
subtasks, Spark's partition i is subtask i. A stage that reads a source has as many partitions as
there is input in that batch: once their number was another than that of the subtasks, there are
only figures of the task as a whole.

What Spark does not measure is None, not 0: it counts no bytes of most sources, and no rows of sinks
other than files.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from jobmanager.core.plan.job_plan import Task
from jobmanager.core.progress import SubtaskProgress
from taskrunner.core.last_minute import LastMinute
from taskrunner.core.spark_stages import StageRole

RECORDS_IN, RECORDS_OUT, BYTES_IN, BYTES_OUT, BUSY = range(5)
_NOTHING = (0, 0, 0, 0, 0)
_WHOLE = -1
"""In place of the number of a subtask: the task as a whole."""
_Key = tuple[str, int]
"""The first vertex of a task, and the number of a subtask."""


@dataclass(frozen=True, slots=True)
class SparkTask:
    """What Spark measured of one task."""

    partition: int
    run_ms: int = 0
    input_records: int = 0
    input_bytes: int = 0
    shuffle_read_records: int = 0
    shuffle_read_bytes: int = 0
    shuffle_write_records: int = 0
    shuffle_write_bytes: int = 0
    output_records: int = 0
    output_bytes: int = 0
    has_succeeded: bool = True


@dataclass(frozen=True, slots=True)
class StageRun:
    """A stage of a Spark job. A stage that Spark has skipped has no tasks."""

    partitions: int
    rdds: tuple[int, ...]
    """Numbers of the data sets that the stage computes; the last is the largest."""
    tasks: tuple[SparkTask, ...] = ()


@dataclass(frozen=True, slots=True)
class SparkJobRun:
    """A Spark job that has ended."""

    batch: int
    stages: tuple[StageRun, ...]
    ended_at_ms: int = 0
    """By the wall clock."""
    number: int = -1
    """Of all Spark jobs of the session."""


@dataclass(frozen=True, slots=True)
class BatchWritten:
    """A batch that its sink has written."""

    batch: int
    rdd: int
    """The number of the data set that had the batch's rows."""
    ended_at_ms: int
    """When the sink was done, by the wall clock."""
    jobs: range = range(0)
    """Spark jobs that computed the batch from its own plan: no stage has the data set then."""


@dataclass(slots=True)
class _Batch:
    written: BatchWritten
    counted: set[int] = field(default_factory=set)
    """Stages whose rows were counted: a sink that reads a batch twice has the same rows twice."""
    last_job_ended_at_ms: int = 0


class TaskMeter:
    """Adds up the Spark jobs of one region's query over one attempt."""

    def __init__(self, at: float) -> None:
        """`at`: now, in seconds of a monotonic clock."""
        self._roles: Sequence[StageRole] = ()
        self._figures: dict[_Key, tuple[int, ...]] = {}
        self._by_subtask: dict[str, bool] = {}
        self._tasks: dict[str, Task] = {}
        self._reading: set[str] = set()
        self._last: set[str] = set()
        self._waited_ms = 0
        self._minute: LastMinute[tuple[str, int, int]] = LastMinute(at)

    def learn(self, roles: Sequence[StageRole]) -> None:
        """Take the roles of the stages of all following jobs, in Spark's order."""
        self._roles = roles

    @property
    def knows_stages(self) -> bool:
        return bool(self._roles)

    def add(self, written: BatchWritten, jobs: Sequence[SparkJobRun]) -> None:
        """Count the jobs of a batch. Jobs that did not compute the batch's rows (a sink looks at
        its table) are nobody's work.
        """
        batch = _Batch(written)
        for job in jobs:
            self._add_job(batch, job)
        if batch.last_job_ended_at_ms:
            self._waited_ms += max(0, written.ended_at_ms - batch.last_job_ended_at_ms)

    def read(self, at: float, input_rows: int, output_rows: int) -> list[SubtaskProgress]:
        """Return the figures so far. The rows that the region has read and written in all tell
        whether Spark counts the rows of its source and its sink.
        """
        totals = {
            (head, subtask, number): value
            for (head, subtask), figures in self._figures.items()
            for number, value in enumerate(figures)
        }
        waits = ("", _WHOLE, 0)
        rates = self._minute.rates(at, {**totals, waits: self._waited_ms})
        return [
            self._progress((head, subtask), unknown, rates, rates[waits])
            for head in sorted(self._tasks)
            for unknown in [self._unknown(head, input_rows, output_rows)]
            for subtask in self._subtasks(head)
        ]

    def _add_job(self, batch: _Batch, job: SparkJobRun) -> None:
        ordered = sorted(job.stages, key=lambda one: max(one.rdds, default=0))
        last = _last_stage(batch.written, job, ordered)
        if last is None:
            return
        batch.last_job_ended_at_ms = max(batch.last_job_ended_at_ms, job.ended_at_ms)
        if last != len(self._roles) - 1:
            return  # the plan is another than the one that is known
        for number, (role, stage) in enumerate(zip(self._roles, ordered, strict=False)):
            if role.task is not None and stage.tasks:
                self._add_stage(role, role.task, stage, is_first=number not in batch.counted)
                batch.counted.add(number)

    def _add_stage(self, role: StageRole, task: Task, stage: StageRun, *, is_first: bool) -> None:
        head = str(task.head)
        self._tasks[head] = task
        if role.reads_source:
            self._reading.add(head)
        if role.is_last:
            self._last.add(head)
        self._by_subtask.setdefault(head, True)
        if stage.partitions != task.parallelism:
            self._by_subtask[head] = False
        for one in stage.tasks:
            figures = _figures(role, one, counts_rows=is_first and one.has_succeeded)
            self._grow((head, _WHOLE), figures)
            if self._by_subtask[head]:
                self._grow((head, one.partition), figures)

    def _grow(self, key: _Key, figures: tuple[int, ...]) -> None:
        before = self._figures.get(key, _NOTHING)
        self._figures[key] = tuple(a + b for a, b in zip(before, figures, strict=True))

    def _subtasks(self, head: str) -> Iterator[int]:
        if self._by_subtask[head]:
            yield from range(self._tasks[head].parallelism)
        else:
            yield _WHOLE

    def _unknown(self, head: str, input_rows: int, output_rows: int) -> set[int]:
        """Return the figures of a task that Spark does not measure."""
        whole = self._figures[head, _WHOLE]
        unknown = set()
        if head in self._reading and input_rows and not whole[RECORDS_IN]:
            unknown |= {RECORDS_IN, BYTES_IN}
        if head in self._last and output_rows and not whole[RECORDS_OUT]:
            unknown |= {RECORDS_OUT, BYTES_OUT}
        if whole[RECORDS_IN] and not whole[BYTES_IN]:
            unknown.add(BYTES_IN)
        if whole[RECORDS_OUT] and not whole[BYTES_OUT]:
            unknown.add(BYTES_OUT)
        return unknown

    def _progress(
        self,
        key: _Key,
        unknown: set[int],
        rates: Mapping[tuple[str, int, int], float],
        waited: float,
    ) -> SubtaskProgress:
        figures = self._figures.get(key, _NOTHING)
        head, subtask = key
        # all subtasks wait together
        waiting = self._tasks[head].parallelism if subtask == _WHOLE else 1

        def total(number: int) -> int | None:
            return None if number in unknown else figures[number]

        def rate(number: int) -> float | None:
            return None if number in unknown else round(rates.get((head, subtask, number), 0.0), 1)

        return SubtaskProgress(
            vertex=head,
            subtask=None if subtask == _WHOLE else subtask,
            records_in=total(RECORDS_IN),
            records_out=total(RECORDS_OUT),
            bytes_in=total(BYTES_IN),
            bytes_out=total(BYTES_OUT),
            busy_ms=figures[BUSY],
            backpressured_ms=self._waited_ms * waiting,
            records_in_per_second=rate(RECORDS_IN),
            records_out_per_second=rate(RECORDS_OUT),
            bytes_in_per_second=rate(BYTES_IN),
            bytes_out_per_second=rate(BYTES_OUT),
            busy_ms_per_second=rate(BUSY) or 0.0,
            backpressured_ms_per_second=round(waited * waiting, 1),
        )


def _last_stage(written: BatchWritten, job: SparkJobRun, ordered: Sequence[StageRun]) -> int | None:
    """The stage of a job in which the rows of a batch come to the sink; None: the job has none."""
    if job.number in written.jobs:
        return len(ordered) - 1
    return next((n for n, one in enumerate(ordered) if written.rdd in one.rdds), None)


def _figures(role: StageRole, one: SparkTask, *, counts_rows: bool) -> tuple[int, ...]:
    if not counts_rows:
        return (0, 0, 0, 0, one.run_ms)
    read = (
        (one.input_records, one.input_bytes)
        if role.reads_source
        else (one.shuffle_read_records, one.shuffle_read_bytes)
    )
    written = (
        (one.output_records, one.output_bytes)
        if role.is_last
        else (one.shuffle_write_records, one.shuffle_write_bytes)
    )
    return (read[0], written[0], read[1], written[1], one.run_ms)
