"""Flink's routes about task managers: our runners."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi import Path as PathParameter
from fastapi.responses import PlainTextResponse, StreamingResponse

from jobmanager.api.context import Ctx, JobIdPath, Uow
from jobmanager.api.flink.cluster_slots import RunnerSlots, read_slots
from jobmanager.api.flink.metric_names import garbage_collectors
from jobmanager.api.flink.metrics import runner_named
from jobmanager.api.flink.times import millis
from jobmanager.api.log_files import log_files, log_text
from jobmanager.api.problems import FLINK
from jobmanager.api.shapes.flink.task_managers import (
    LogList,
    LogUrl,
    TaskManagerDetails,
    TaskManagers,
    ThreadDump,
)
from jobmanager.core.errors import LogNotFound, RunnerNotFound, UnsupportedRequest
from jobmanager.protocol.versions import TOLERANT_SINCE
from jobmanager.services.ports.runners import Runner

router = APIRouter(tags=[FLINK])
_MIB = 1024 * 1024
_NO_SHUFFLE = (
    "nettyShuffleMemorySegmentsAvailable",
    "nettyShuffleMemorySegmentsUsed",
    "nettyShuffleMemorySegmentsTotal",
    "nettyShuffleMemoryAvailable",
    "nettyShuffleMemoryUsed",
    "nettyShuffleMemoryTotal",
)
LogName = Annotated[str, PathParameter(max_length=255)]


@router.get("/taskmanagers", summary="Runners that are alive", response_model=TaskManagers)
async def runner_list(uow: Uow) -> dict[str, Any]:
    async with uow:
        found = await read_slots(uow)
    return {"taskmanagers": [_shape(one) for one in found]}


@router.get("/taskmanagers/{taskmanagerid}", summary="A runner", response_model=TaskManagerDetails)
async def details(taskmanagerid: str, uow: Uow) -> dict[str, Any]:
    async with uow:
        runner = await runner_named(uow, taskmanagerid)
        alive = await read_slots(uow)
    found = next((one for one in alive if one.runner.id == runner.id), None)
    if found is None:
        raise RunnerNotFound(f"runner {taskmanagerid} has exited")
    each = _resource(found, 1 if found.slots else 0)
    tasks = found.tasks // found.taken if found.taken else 0
    slot = {"jobId": runner.job_id.hex, "resource": each, "assignedTasks": tasks}
    return {
        **_shape(found),
        "allocatedSlots": [slot] * found.taken,
        "metrics": _memory(runner.memory or {}),
    }


@router.get("/taskmanagers/{taskmanagerid}/logs", summary="A runner's logs", response_model=LogList)
async def logs(taskmanagerid: str, uow: Uow) -> dict[str, Any]:
    async with uow:
        runner = await runner_named(uow, taskmanagerid)
    found = await asyncio.to_thread(log_files, Path(runner.log_path))
    return {
        "logs": [
            {"name": one.path.name, "size": one.size, "mtime": one.changed_ms} for one in found
        ]
    }


@router.get(
    "/taskmanagers/{taskmanagerid}/logs/{logname}",
    summary="One of a runner's logs",
    response_class=PlainTextResponse,
)
async def log_named(taskmanagerid: str, logname: LogName, uow: Uow) -> StreamingResponse:
    async with uow:
        runner = await runner_named(uow, taskmanagerid)
    return await _log(runner, logname)


@router.get(
    "/taskmanagers/{taskmanagerid}/log",
    summary="A runner's log",
    response_class=PlainTextResponse,
)
async def log(taskmanagerid: str, uow: Uow) -> StreamingResponse:
    async with uow:
        runner = await runner_named(uow, taskmanagerid)
    return await _log(runner, Path(runner.log_path).name)


@router.get(
    "/taskmanagers/{taskmanagerid}/stdout",
    summary="What a runner wrote to standard output: its log",
    response_class=PlainTextResponse,
)
async def standard_output(taskmanagerid: str, uow: Uow) -> StreamingResponse:
    async with uow:
        runner = await runner_named(uow, taskmanagerid)
    return await _log(runner, Path(runner.log_path).name)


@router.get(
    "/taskmanagers/{taskmanagerid}/thread-dump",
    summary="What a runner's threads do",
    response_model=ThreadDump,
)
async def thread_dump(
    taskmanagerid: str,
    context: Ctx,
    uow: Uow,
    mode: Annotated[str, Query(max_length=30)] = "",
) -> dict[str, Any]:
    """Threads of its Python process and of its JVM. The runner is asked with the answer to its next
    heartbeat, so this takes a second or two.
    """
    async with uow:
        runner = await runner_named(uow, taskmanagerid)
    if runner.exited_at is not None:
        raise RunnerNotFound(f"runner {runner.id.hex} has ended: {runner.exit_description}")
    if runner.protocol < TOLERANT_SINCE:
        raise UnsupportedRequest(
            f"runner {runner.id.hex} is of an older version and answers no questions: log in to "
            f"{runner.host} and run jcmd for the JVM below process {runner.pid}"
        )
    found = await context.thread_dumps.ask(runner.id)
    return {
        "threadInfos": [
            {"threadName": one.name, "stringifiedThreadInfo": one.text} for one in found
        ]
    }


@router.get(
    "/jobs/{jobid}/taskmanagers/{taskmanagerid}/log-url",
    summary="Where a runner's log is",
    response_model=LogUrl,
)
async def log_url(
    job_id: JobIdPath, taskmanagerid: str, request: Request, uow: Uow
) -> dict[str, Any]:
    async with uow:
        await uow.jobs.get(job_id)
        runner = await runner_named(uow, taskmanagerid)
    if runner.job_id != job_id:
        raise RunnerNotFound(f"runner {taskmanagerid} does not run job {job_id.hex}")
    base = str(request.base_url).rstrip("/")
    return {"url": f"{base}/v1/taskmanagers/{runner.id.hex}/log"}


async def _log(runner: Runner, name: str) -> StreamingResponse:
    """Only the files that the list names can be read."""
    found = await asyncio.to_thread(log_files, Path(runner.log_path))
    for one in found:
        if one.path.name == name:
            return StreamingResponse(log_text(one), media_type="text/plain; charset=utf-8")
    raise LogNotFound(f"runner {runner.id.hex} has no log {name!r} on this machine")


def _shape(found: RunnerSlots) -> dict[str, Any]:
    runner = found.runner
    jvm = (runner.memory or {}).get("jvm") or {}
    heap = _known(runner.memory or {}, "heap_max_bytes")
    return {
        "id": runner.id.hex,
        "path": f"headgate://{runner.host}/{runner.pid or 0}",
        "dataPort": -1,
        "jmxPort": -1,
        "timeSinceLastHeartbeat": millis(runner.heartbeat_at or runner.launched_at),
        "slotsNumber": found.slots,
        "freeSlots": found.free,
        "assignedTasks": found.tasks,
        "totalResource": _resource(found, found.slots),
        "freeResource": _resource(found, found.free),
        "hardware": {
            "cpuCores": _known(jvm, "cpu_cores"),
            "physicalMemory": _known(jvm, "physical_bytes"),
            "freeMemory": heap,
            "managedMemory": -1,
        },
        "memoryConfiguration": {
            "frameworkHeap": -1,
            "taskHeap": heap,
            "frameworkOffHeap": -1,
            "taskOffHeap": -1,
            "networkMemory": -1,
            "managedMemory": -1,
            "jvmMetaspace": -1,
            "jvmOverhead": -1,
            "totalFlinkMemory": heap,
            "totalProcessMemory": -1,
        },
        "blocked": False,
    }


def _resource(found: RunnerSlots, slots: int) -> dict[str, Any]:
    """Return the share of the heap that belongs to so many slots, if all have the same share."""
    heap = (found.runner.memory or {}).get("heap_max_bytes") or 0
    share = heap * slots // found.slots if found.slots else 0
    return {
        "cpuCores": float(slots),
        "taskHeapMemory": share // _MIB,
        "taskOffHeapMemory": 0,
        "managedMemory": 0,
        "networkMemory": 0,
        "extendedResources": {},
    }


def _memory(told: Mapping[str, Any]) -> dict[str, Any]:
    jvm = told.get("jvm") or {}
    return {
        "heapUsed": _known(told, "heap_used_bytes"),
        "heapCommitted": _known(jvm, "heap_committed_bytes"),
        "heapMax": _known(told, "heap_max_bytes"),
        "nonHeapUsed": _known(jvm, "non_heap_used_bytes"),
        "nonHeapCommitted": _known(jvm, "non_heap_committed_bytes"),
        "nonHeapMax": _known(jvm, "non_heap_max_bytes"),
        "directCount": _known(jvm, "direct_count"),
        "directUsed": _known(jvm, "direct_used_bytes"),
        "directMax": _known(jvm, "direct_capacity_bytes"),
        "mappedCount": _known(jvm, "mapped_count"),
        "mappedUsed": _known(jvm, "mapped_used_bytes"),
        "mappedMax": _known(jvm, "mapped_capacity_bytes"),
        **dict.fromkeys(_NO_SHUFFLE, -1),
        "garbageCollectors": garbage_collectors(jvm),
    }


def _known(figures: Mapping[str, Any], name: str) -> int:
    """Return a figure that the runner has reported; -1: it has not."""
    value = figures.get(name)
    return value if isinstance(value, int) else -1
