"""Flink's routes about the JobManager: configuration, environment, logs, threads."""

import platform
import sys
import threading
import traceback
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import PlainTextResponse

from jobmanager.api.context import ApiContext, Ctx, JobIdPath, Uow
from jobmanager.api.problems import FLINK
from jobmanager.api.shapes.flink.task_managers import (
    Configuration,
    LogList,
    LogUrl,
    PythonEnvironment,
    ThreadDump,
)
from jobmanager.core.durations import milliseconds
from jobmanager.core.errors import LogNotFound
from jobmanager.core.life.records import StoredJob

router = APIRouter(tags=[FLINK])
_NO_LOG = (
    "a JobManager keeps no log file, it writes its log to standard error: read it where the server "
    "was started (journalctl, docker logs)"
)


@router.get(
    "/jobmanager/config",
    summary="The server's settings",
    response_model=Configuration,
)
async def config(context: Ctx) -> list[dict[str, str]]:
    """Settings of Headgate by their own names, without secrets, and those of Flink that clients
    look for.
    """
    return _entries(_of_server(context))


@router.get(
    "/jobmanager/environment",
    summary="The Python that runs the server",
    response_model=PythonEnvironment,
)
async def environment() -> dict[str, Any]:
    return {
        "jvm": {
            "version": f"{platform.python_implementation()} - {platform.python_version()}",
            "arch": platform.machine(),
            "options": [],
        },
        "classpath": [one for one in sys.path if one],
    }


@router.get("/jobmanager/logs", summary="The server's log files, none", response_model=LogList)
async def logs() -> dict[str, Any]:
    """The server writes its log to standard error."""
    return {"logs": []}


@router.get(
    "/jobmanager/logs/{logname}",
    summary="One of the server's log files, none",
    response_class=PlainTextResponse,
)
async def log_named(logname: str) -> PlainTextResponse:
    raise LogNotFound(_NO_LOG)


@router.get(
    "/jobmanager/log",
    summary="The server's log file, none",
    response_class=PlainTextResponse,
)
async def log() -> PlainTextResponse:
    raise LogNotFound(_NO_LOG)


@router.get(
    "/jobmanager/stdout",
    summary="The server's output file, none",
    response_class=PlainTextResponse,
)
async def standard_output() -> PlainTextResponse:
    raise LogNotFound(_NO_LOG)


@router.get(
    "/jobmanager/thread-dump",
    summary="What the server's threads do",
    response_model=ThreadDump,
)
async def thread_dump(
    mode: Annotated[str, Query(max_length=30, description="Not used.")] = "",
) -> dict[str, Any]:
    frames = sys._current_frames()
    return {
        "threadInfos": [
            {
                "threadName": one.name,
                "stringifiedThreadInfo": _thread(one, frames.get(one.ident or 0)),
            }
            for one in threading.enumerate()
        ]
    }


@router.get(
    "/jobs/{jobid}/jobmanager/config",
    summary="The server's settings, as they hold for a job",
    response_model=Configuration,
)
async def job_config(job_id: JobIdPath, context: Ctx, uow: Uow) -> list[dict[str, str]]:
    async with uow:
        stored = await uow.jobs.get(job_id)
    return _entries({**_of_server(context), **settings_of_job(stored)})


@router.get(
    "/jobs/{jobid}/jobmanager/environment",
    summary="The Python that runs the server",
    response_model=PythonEnvironment,
)
async def job_environment(job_id: JobIdPath, uow: Uow) -> dict[str, Any]:
    async with uow:
        await uow.jobs.get(job_id)
    return await environment()


@router.get(
    "/jobs/{jobid}/jobmanager/log-url",
    summary="Where the log of a job is",
    response_model=LogUrl,
)
async def log_url(job_id: JobIdPath, request: Request, uow: Uow) -> dict[str, Any]:
    """That of its runner: the server keeps no log file."""
    async with uow:
        await uow.jobs.get(job_id)
    return {"url": f"{str(request.base_url).rstrip('/')}/v1/jobs/{job_id.hex}/logs"}


def _of_server(context: ApiContext) -> dict[str, str]:
    places = context.run_settings
    return {
        **{f"headgate.{name}": value for name, value in context.configuration.items()},
        "jobmanager.scheduler": "adaptive",
        "state.backend.type": "rocksdb",
        "execution.checkpointing.dir": places.checkpoints or places.storage,
        "spark.master": places.spark_master,
    }


def settings_of_job(stored: StoredJob) -> dict[str, str]:
    """Return the job's own settings by Flink's names."""
    timing = stored.graph.checkpointing
    return {
        "pipeline.name": stored.graph.name,
        "pipeline.max-parallelism": str(stored.graph.max_parallelism),
        "parallelism.default": str(stored.parallelism),
        "execution.runtime-mode": stored.graph.mode.upper(),
        "execution.checkpointing.interval": f"{milliseconds(timing.interval)} ms",
        "execution.checkpointing.timeout": f"{milliseconds(timing.timeout)} ms",
        "execution.checkpointing.min-pause": f"{milliseconds(timing.min_pause)} ms",
        "execution.checkpointing.mode": "EXACTLY_ONCE",
        **{name: str(value) for name, value in stored.graph.spark.items()},
    }


def _entries(settings: dict[str, str]) -> list[dict[str, str]]:
    return [{"key": name, "value": value} for name, value in sorted(settings.items())]


def _thread(thread: threading.Thread, frame: Any) -> str:
    state = "daemon" if thread.daemon else "main" if thread is threading.main_thread() else "user"
    head = f'"{thread.name}" Id={thread.ident} {state}\n'
    return head + "".join(traceback.format_stack(frame) if frame is not None else [])
