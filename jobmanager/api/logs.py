"""The native route for a runner's log, as text; it can be followed."""

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, BinaryIO

from fastapi import APIRouter, Query
from fastapi.responses import PlainTextResponse, StreamingResponse

from jobmanager.api.context import ApiContext, Ctx, JobIdPath, Uow
from jobmanager.core.errors import LogNotFound
from jobmanager.core.ids import AttemptNumber, JobId

router = APIRouter(tags=["jobs"])
_CHUNK = 64 * 1024
_LOOK_EVERY = 0.5
_LONG_LINE = 2_000
_LONGEST_LINE = 1024 * 1024
"""A longer line is taken for several: a line without an end must not fill the memory."""


@router.get(
    "/jobs/{jobid}/logs",
    summary="The runner's log",
    response_class=PlainTextResponse,
)
async def logs(
    job_id: JobIdPath,
    context: Ctx,
    uow: Uow,
    follow: bool = False,
    tail: Annotated[
        int | None, Query(ge=0, le=100_000, description="Only the last so many lines.")
    ] = None,
    search: Annotated[
        str, Query(max_length=200, description="Only lines with this text, in upper or lower case.")
    ] = "",
    attempt: Annotated[
        int | None, Query(ge=1, le=2**31 - 1, description="The attempt; by default the newest.")
    ] = None,
) -> StreamingResponse:
    async with uow:
        stored = await uow.jobs.get(job_id)
        number = AttemptNumber(attempt) if attempt else stored.job.attempt
        runner = await uow.runners.of_attempt(job_id, number)
    if runner is None or not await asyncio.to_thread(Path(runner.log_path).exists):
        raise LogNotFound(f"attempt {number} of job {job_id.hex} has no log on this machine yet")
    text = _text(Path(runner.log_path), context, job_id, number, _Wanted(follow, tail, search))
    return StreamingResponse(text, media_type="text/plain; charset=utf-8")


@dataclass(frozen=True, slots=True)
class _Wanted:
    follow: bool
    tail: int | None
    search: str

    def picks(self, line: bytes) -> bool:
        return self.search.lower().encode() in line.lower()


async def _text(
    path: Path, context: ApiContext, job_id: JobId, attempt: AttemptNumber, wanted: _Wanted
) -> AsyncIterator[bytes]:
    """Yield the wanted lines of the file; when following, until the attempt's runner has exited.
    Only a piece of the file is in memory: many may read, and read slowly.
    """
    with await asyncio.to_thread(path.open, "rb") as log:
        if wanted.tail is not None:
            for begin, end in await asyncio.to_thread(_last_lines, log, wanted):
                for at in range(begin, end, _CHUNK):
                    yield await asyncio.to_thread(_piece, log, at, min(_CHUNK, end - at))
        rest = b""
        while True:
            gone = not wanted.follow or await _is_gone(context, job_id, attempt)
            while chunk := await asyncio.to_thread(log.read, _CHUNK):
                if not wanted.search:
                    yield chunk
                    continue
                *lines, rest = (rest + chunk).split(b"\n")
                if len(rest) > _LONGEST_LINE:
                    lines, rest = [*lines, rest], b""
                yield b"".join(line + b"\n" for line in lines if wanted.picks(line))
            if await asyncio.to_thread(_was_emptied, log):
                log.seek(0)  # by a rotation
                continue
            if gone:
                yield rest if wanted.search and wanted.picks(rest) else b""
                return
            await asyncio.sleep(_LOOK_EVERY)


def _was_emptied(log: BinaryIO) -> bool:
    """Whether the file is shorter than what was read of it."""
    return os.fstat(log.fileno()).st_size < log.tell()


def _piece(log: BinaryIO, at: int, size: int) -> bytes:
    """Read a piece of the file, and leave the position as it was."""
    return os.pread(log.fileno(), size, at)


def _last_lines(log: BinaryIO, wanted: _Wanted) -> Iterable[tuple[int, int]]:
    """Return where the last wanted lines begin and end, and leave the file positioned at the end of
    a line. A line that is very long counts as several.
    """
    lines: deque[tuple[int, int]] = deque(maxlen=wanted.tail)
    if not wanted.search:
        # A file may be large: begin where the last lines certainly begin, unless they are very
        # long.
        size = log.seek(0, 2)
        log.seek(max(0, size - _LONG_LINE * (wanted.tail or 0)))
        if log.tell():
            log.readline(_LONGEST_LINE)
    begin = log.tell()
    while line := log.readline(_LONGEST_LINE):
        if not line.endswith(b"\n") and len(line) < _LONGEST_LINE:
            break
        end = begin + len(line)
        if wanted.picks(line):
            lines.append((begin, end))
        begin = end
    log.seek(begin)
    return _joined(lines)


def _joined(places: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join places that follow each other."""
    joined: list[tuple[int, int]] = []
    for begin, end in places:
        if joined and joined[-1][1] == begin:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((begin, end))
    return joined


async def _is_gone(context: ApiContext, job_id: JobId, attempt: AttemptNumber) -> bool:
    async with context.units() as uow:
        runner = await uow.runners.of_attempt(job_id, attempt)
    return runner is None or runner.exited_at is not None
