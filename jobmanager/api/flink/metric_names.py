"""The metrics of jobs, tasks, runners and the JobManager, by the names that Flink gives them.

A metric that is unknown is left out, as Flink leaves out what a component does not report; the time
for which a subtask was busy is NaN while it is unknown, as Flink's sources have it.
"""

import gc
import math
import re
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import psutil

from jobmanager.api.flink.metric_answers import Metrics
from jobmanager.api.flink.times import millis
from jobmanager.core.life.job import JobStatus
from jobmanager.core.life.records import StoredCheckpoint, StoredJob
from jobmanager.core.plan.job_plan import Plan, Task
from jobmanager.core.progress import RegionProgress
from jobmanager.core.task_figures import (
    TaskFigures,
    sources_of,
    subtask_figures,
    task_figures,
    watermark_of,
)

_NOT_IN_NAMES = re.compile(r"[^\w\[\]<>-]", re.ASCII)
_JVM = "Status.JVM"
_MEMORY = f"{_JVM}.Memory"
_STATES_OF_TIMES = {
    "createdTime": (),
    "initializingTime": (JobStatus.STARTING,),
    "runningTime": (JobStatus.RUNNING,),
    "restartingTime": (JobStatus.RESTARTING,),
    "cancellingTime": (JobStatus.CANCELLING,),
    "failingTime": (),
    "deployingTime": (),
}
"""Each is the time since a job has been in one of these states, or 0."""


def job_metrics(
    stored: StoredJob,
    counts: Mapping[str, int],
    last: StoredCheckpoint | None,
    last_path: str,
    restored_at: datetime | None,
    rescales: int,
    now: datetime,
) -> Metrics:
    """`last` is the newest completed checkpoint, `restored_at` when state was last restored."""
    job = stored.job
    since = max(0, millis(now) - millis(job.since))
    files = last.checkpoint.stored if last else None
    ended = last.checkpoint.ended_at if last else None
    began = last.checkpoint.triggered_at if last else None
    running = since if job.status is JobStatus.RUNNING else 0
    is_down = job.status in (JobStatus.RESTARTING, JobStatus.STARTING)
    return {
        "numRestarts": job.failures - (job.status is JobStatus.FAILED),
        "fullRestarts": job.failures - (job.status is JobStatus.FAILED),
        "numRescales": rescales,
        "uptime": running,
        "downtime": since if is_down else (-1 if job.status.is_terminal else 0),
        "allSubTasksRunningOrFinishedTime": running,
        **{name: since if job.status in states else 0 for name, states in _STATES_OF_TIMES.items()},
        "totalNumberOfCheckpoints": sum(counts.values()),
        "numberOfInProgressCheckpoints": counts.get("in_progress", 0),
        "numberOfCompletedCheckpoints": counts.get("completed", 0),
        "numberOfFailedCheckpoints": counts.get("aborted", 0),
        "lastCompletedCheckpointId": last.checkpoint.number if last else -1,
        "lastCheckpointCompletedTimestamp": millis(ended) if ended else -1,
        "lastCheckpointDuration": millis(ended) - millis(began) if ended and began else -1,
        "lastCheckpointSize": files.new_bytes if files else -1,
        "lastCheckpointFullSize": files.bytes if files else -1,
        "lastCheckpointMetadataSize": -1,
        "lastCheckpointProcessedData": 0 if last else -1,
        "lastCheckpointPersistedData": 0 if last else -1,
        "lastCheckpointExternalPath": last_path if last else "n/a",
        "lastCheckpointRestoreTimestamp": millis(restored_at) if restored_at else -1,
    }


def subtask_metrics(plan: Plan, progress: Sequence[RegionProgress], task: Task) -> list[Metrics]:
    """Return the metrics of each subtask of a task, in their order."""
    figures = subtask_figures(plan, progress, task)
    watermark = watermark_of(plan, progress, task)
    found: list[dict[str, int | float | str]] = [_of_subtask(one) for one in figures]
    for one in found:
        if watermark is not None:
            one["currentInputWatermark"] = millis(watermark)
    for vertex, (reported, rows) in sources_of(plan, progress, task).items():
        scope = f"Source__{_NOT_IN_NAMES.sub('_', vertex)}"
        for one in found:
            one |= {f"{scope}.{name}": one[name] for name in _OF_A_SOURCE if name in one}
        if reported is not None and reported.backlog_rows is not None:
            # Spark counts them for the source as a whole; sums over subtasks are right with this
            found[0][f"{scope}.pendingRecords"] = reported.backlog_rows
        if rows is not None and task.parallelism == 1:
            found[0][f"{scope}.numRecordsIn"] = rows
    return list(found)


def whole_metrics(plan: Plan, progress: Sequence[RegionProgress], task: Task) -> Metrics:
    """Return the metrics of all subtasks of a task together, as far as they are known."""
    figures = task_figures(plan, progress, task)
    found = _of_subtask(figures)
    found.pop("idleTimeMsPerSecond", None)  # it is what is left of a second, of each subtask
    if figures.busy_ms_per_second is None:
        found.pop("busyTimeMsPerSecond", None)
    return found


_OF_A_SOURCE = (
    "numRecordsIn",
    "numRecordsInPerSecond",
    "numRecordsOut",
    "numRecordsOutPerSecond",
    "numBytesIn",
    "numBytesInPerSecond",
)


def _of_subtask(figures: TaskFigures) -> dict[str, int | float | str]:
    busy = figures.busy_ms_per_second
    known: dict[str, float | None] = {
        "numRecordsIn": figures.records_in,
        "numRecordsOut": figures.records_out,
        "numBytesIn": figures.bytes_in,
        "numBytesOut": figures.bytes_out,
        "numRecordsInPerSecond": figures.records_in_per_second,
        "numRecordsOutPerSecond": figures.records_out_per_second,
        "numBytesInPerSecond": figures.bytes_in_per_second,
        "numBytesOutPerSecond": figures.bytes_out_per_second,
        "accumulateBusyTimeMs": figures.busy_ms,
        "busyTimeMsPerSecond": math.nan if busy is None else busy,
        "idleTimeMsPerSecond": figures.idle_ms_per_second,
        # a batch whose tasks are done waits for its sink, and so does the next batch
        "backPressuredTimeMsPerSecond": figures.backpressured_ms_per_second,
        "accumulateBackPressuredTimeMs": figures.backpressured_ms,
    }
    return {name: value for name, value in known.items() if value is not None}


def task_metrics(of_subtasks: Sequence[Metrics]) -> Metrics:
    """Return the metrics of a task: those of its subtasks, each name after the subtask's number."""
    return {
        f"{number}.{name}": value
        for number, one in enumerate(of_subtasks)
        for name, value in one.items()
    }


def runner_metrics(memory: Mapping[str, Any] | None) -> Metrics:
    """Return the metrics of a runner, from what it last reported of its processes."""
    told = memory or {}
    jvm = told.get("jvm") or {}
    found: dict[str, Any] = {
        f"{_MEMORY}.Heap.Used": told.get("heap_used_bytes"),
        f"{_MEMORY}.Heap.Max": told.get("heap_max_bytes"),
        f"{_MEMORY}.Heap.Committed": jvm.get("heap_committed_bytes"),
        f"{_JVM}.Threads.Count": jvm.get("threads"),
        f"{_JVM}.CPU.Time": jvm.get("cpu_time_ns"),
        f"{_JVM}.ClassLoader.ClassesLoaded": jvm.get("classes_loaded"),
        f"{_JVM}.ClassLoader.ClassesUnloaded": jvm.get("classes_unloaded"),
    }
    for kind, name in (("non_heap", "NonHeap"), ("metaspace", "Metaspace")):
        for ours, flinks in (("used", "Used"), ("committed", "Committed"), ("max", "Max")):
            found[f"{_MEMORY}.{name}.{flinks}"] = jvm.get(f"{kind}_{ours}_bytes")
    for kind, name in (("direct", "Direct"), ("mapped", "Mapped")):
        found[f"{_MEMORY}.{name}.Count"] = jvm.get(f"{kind}_count")
        found[f"{_MEMORY}.{name}.MemoryUsed"] = jvm.get(f"{kind}_used_bytes")
        found[f"{_MEMORY}.{name}.TotalCapacity"] = jvm.get(f"{kind}_capacity_bytes")
    for one in garbage_collectors(jvm):
        found[f"{_JVM}.GarbageCollector.{one['name']}.Count"] = one["count"]
        found[f"{_JVM}.GarbageCollector.{one['name']}.Time"] = one["time"]
    found["Status.ProcessTree.ResidentBytes"] = told.get("resident_bytes")
    return {name: value for name, value in found.items() if value is not None}


def garbage_collectors(jvm: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return each garbage collector of a runner's JVM, and all of them together."""
    each = [
        {
            "name": _NOT_IN_NAMES.sub("_", str(one["name"])),
            "count": one["count"],
            "time": one["time_ms"],
        }
        for one in jvm.get("garbage_collectors") or ()
    ]
    if not each:
        return []
    both = {what: sum(one[what] for one in each) for what in ("count", "time")}
    return [{"name": "All", **both}, *each]


def jobmanager_metrics(slots: int, free_slots: int, runners: int, running_jobs: int) -> Metrics:
    """Return the metrics of this server. It is a Python process: what Flink calls heap is the
    memory of the process, and the garbage collector is Python's.
    """
    process = psutil.Process()
    with process.oneshot():
        resident, spent = process.memory_info().rss, process.cpu_times()
        files = process.num_fds()
    return {
        "taskSlotsTotal": slots,
        "taskSlotsAvailable": free_slots,
        "numRegisteredTaskManagers": runners,
        "numRunningJobs": running_jobs,
        f"{_MEMORY}.Heap.Used": resident,
        f"{_MEMORY}.Heap.Committed": resident,
        f"{_MEMORY}.Heap.Max": -1,
        f"{_JVM}.CPU.Time": int((spent.user + spent.system) * 1_000_000_000),
        f"{_JVM}.Threads.Count": threading.active_count(),
        f"{_JVM}.FileDescriptor.Open": files,
        f"{_JVM}.GarbageCollector.All.Count": sum(one["collections"] for one in gc.get_stats()),
    }
