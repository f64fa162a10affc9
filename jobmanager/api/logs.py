"""The runner's log, as text, followed on request."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from jobmanager.api.context import Context, Ctx, JobIdPath, Uow
from jobmanager.core.errors import LogNotFound
from jobmanager.core.ids import AttemptNumber, JobId

router = APIRouter(tags=["jobs"])
_CHUNK = 64 * 1024
_LOOK_EVERY = 0.5


@router.get(
    "/jobs/{jobid}/logs",
    summary="The runner's log",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/plain": {}}}},
)
async def logs(
    job_id: JobIdPath,
    context: Ctx,
    uow: Uow,
    follow: bool = False,
    attempt: Annotated[int | None, Query(ge=1, description="By default the newest.")] = None,
) -> StreamingResponse:
    async with uow:
        stored = await uow.jobs.get(job_id)
        number = AttemptNumber(attempt) if attempt else stored.job.attempt
        runner = await uow.runners.of_attempt(job_id, number)
    if runner is None or not await asyncio.to_thread(Path(runner.log_path).exists):
        raise LogNotFound(f"attempt {number} of job {job_id.hex} has no log on this machine yet")
    text = _text(Path(runner.log_path), context, job_id, number, follow)
    return StreamingResponse(text, media_type="text/plain; charset=utf-8")


async def _text(
    path: Path, context: Context, job_id: JobId, attempt: AttemptNumber, follow: bool
) -> AsyncIterator[bytes]:
    """The file from its start; while following, until the attempt's runner has exited."""
    with await asyncio.to_thread(path.open, "rb") as log:
        while True:
            gone = not follow or await _is_gone(context, job_id, attempt)
            while chunk := await asyncio.to_thread(log.read, _CHUNK):
                yield chunk
            if gone:
                return
            await asyncio.sleep(_LOOK_EVERY)


async def _is_gone(context: Context, job_id: JobId, attempt: AttemptNumber) -> bool:
    async with context.units() as uow:
        runner = await uow.runners.of_attempt(job_id, attempt)
    return runner is None or runner.exited_at is not None
