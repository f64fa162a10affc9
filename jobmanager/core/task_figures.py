"""What is known of a job's tasks: rows, bytes and time, by subtask.

The runner reports what Spark measured of each subtask, or of a task as a whole
(`SubtaskProgress`), where Spark's tasks can be told apart by vertex. Beside that there is what
Spark reports of each region: rows read, and rows given to the sink. A figure that neither gives is
None: unknown, never 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any

from jobmanager.core.plan.job_plan import Plan, Region, Task
from jobmanager.core.progress import RegionProgress, SourceProgress, SubtaskProgress


@dataclass(frozen=True, slots=True)
class TaskFigures:
    """Of one subtask, or of all subtasks of a task together. None: unknown."""

    records_in: int | None = None
    records_out: int | None = None
    bytes_in: int | None = None
    bytes_out: int | None = None
    busy_ms: int | None = None
    backpressured_ms: int | None = None
    """Of a batch whose tasks are done and whose sink is not."""
    records_in_per_second: float | None = None
    records_out_per_second: float | None = None
    bytes_in_per_second: float | None = None
    bytes_out_per_second: float | None = None
    busy_ms_per_second: float | None = None
    backpressured_ms_per_second: float | None = None

    def idle_ms(self, running_ms: int) -> int | None:
        """Return the time, of `running_ms`, for which no task of the subtask ran and no batch
        waited for its sink.
        """
        if self.busy_ms is None:
            return None
        return max(0, running_ms - self.busy_ms - (self.backpressured_ms or 0))

    @property
    def idle_ms_per_second(self) -> float | None:
        busy = self.busy_ms_per_second
        waited = self.backpressured_ms_per_second or 0.0
        return None if busy is None else max(0.0, 1000.0 - busy - waited)


_NAMES = tuple(one.name for one in fields(TaskFigures))
UNKNOWN = TaskFigures()


def subtask_figures(
    plan: Plan, progress: Sequence[RegionProgress], task: Task
) -> list[TaskFigures]:
    """Return the figures of each subtask of a task, in their order."""
    measured = _measured(progress, task)
    if task.parallelism == 1:
        return [task_figures(plan, progress, task)]
    numbers = range(task.parallelism)
    if any(number in measured for number in numbers):
        return [_of(measured.get(number)) for number in numbers]
    return [UNKNOWN] * task.parallelism


def task_figures(plan: Plan, progress: Sequence[RegionProgress], task: Task) -> TaskFigures:
    """Return the figures of a task as a whole: what Spark measured of its tasks, and where that is
    unknown, what Spark reports of the regions.
    """
    told = _of_regions(plan, progress, task)
    measured = _measured(progress, task)
    if not measured:
        return told
    found = total([_of(one) for one in measured.values()])
    missing = {
        name: getattr(told, name)
        for name in _NAMES
        if getattr(found, name) is None and getattr(told, name) is not None
    }
    return replace(found, **missing)


def total(figures: Sequence[TaskFigures]) -> TaskFigures:
    """Add figures up. A sum of which a part is unknown is unknown."""
    if not figures:
        return UNKNOWN
    sums: dict[str, Any] = {name: _sum([getattr(one, name) for one in figures]) for name in _NAMES}
    return TaskFigures(**sums)


def regions_of(plan: Plan, task: Task) -> list[Region]:
    """Return the regions in which a task runs: a task that two sinks share runs in two."""
    return [one for one in plan.regions if task.head in one.vertices]


def watermark_of(plan: Plan, progress: Sequence[RegionProgress], task: Task) -> datetime | None:
    """Return the watermark up to which the task's input has come; None: it has no input with a
    watermark, such as a task that reads a source.
    """
    mine = {one.id for one in regions_of(plan, task) if task.head not in one.sources}
    found = [one.watermark for one in progress if one.region in mine and one.watermark]
    return min(found) if found else None


def sources_of(
    plan: Plan, progress: Sequence[RegionProgress], task: Task
) -> dict[str, tuple[SourceProgress | None, int | None]]:
    """Return, for each source in the task, what was last reported of it and the rows that it has
    read. A source that two regions share is read in each of them.
    """
    found: dict[str, tuple[SourceProgress | None, int | None]] = {}
    by_id = {one.region: one for one in progress}
    for region in regions_of(plan, task):
        told = by_id.get(region.id)
        for vertex in region.sources:
            if vertex in task.vertices and told is not None:
                reported = next((one for one in told.sources if one.vertex == vertex), None)
                rows = told.input_rows if len(region.sources) == 1 else None
                found.setdefault(vertex, (reported, rows))
    return found


def _measured(progress: Sequence[RegionProgress], task: Task) -> dict[int | None, SubtaskProgress]:
    """Return what Spark measured, in the first region that has it: by subtask, or (None) of the
    task as a whole.
    """
    for region in progress:
        mine = {one.subtask: one for one in region.subtasks if one.vertex == task.head}
        if mine:
            return mine
    return {}


def _of(measured: SubtaskProgress | None) -> TaskFigures:
    """A subtask of which nothing was measured has not had a task yet."""
    told = measured or SubtaskProgress(vertex="", subtask=0)
    return TaskFigures(**{name: getattr(told, name) for name in _NAMES})


def _of_regions(plan: Plan, progress: Sequence[RegionProgress], task: Task) -> TaskFigures:
    """What Spark reports of whole regions: rows read by the task's source, rows given to its
    sink.
    """
    by_id = {one.region: one for one in progress}
    read = written = None
    read_rate = None
    for region in regions_of(plan, task):
        told = by_id.get(region.id)
        if told is None:
            continue
        if len(region.sources) == 1 and region.sources[0] in task.vertices:
            read = (read or 0) + told.input_rows
            read_rate = (read_rate or 0.0) + told.processed_rows_per_second
        if set(region.sinks) & set(task.vertices):
            written = (written or 0) + told.output_rows
    return TaskFigures(records_in=read, records_out=written, records_in_per_second=read_rate)


def _sum(values: Sequence[float | None]) -> float | None:
    known = [one for one in values if one is not None]
    return sum(known) if len(known) == len(values) else None


def percentiles(values: Sequence[int]) -> dict[str, int]:
    """Return Flink's summary of a figure over subtasks."""
    ordered = sorted(values) or [0]
    return {
        "min": ordered[0],
        "max": ordered[-1],
        "avg": sum(ordered) // len(ordered),
        "sum": sum(ordered),
        "median": _rank(ordered, 0.5),
        "p25": _rank(ordered, 0.25),
        "p75": _rank(ordered, 0.75),
        "p95": _rank(ordered, 0.95),
    }


def _rank(ordered: Sequence[int], q: float) -> int:
    """Interpolate linearly between the two nearest ranks."""
    position = min(max(q * (len(ordered) + 1), 1), len(ordered)) - 1
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return int(ordered[below] + (position - below) * (ordered[above] - ordered[below]))
