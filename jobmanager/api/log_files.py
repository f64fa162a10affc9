"""The log files of a runner: the present one, and those that were rotated."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

_CHUNK = 64 * 1024


@dataclass(frozen=True, slots=True)
class LogOnDisk:
    path: Path
    size: int
    changed_ms: int


def log_files(log: Path) -> list[LogOnDisk]:
    """Return the log and its rotated files that are on this machine, the newest first."""
    found = []
    for path in (log, *sorted(log.parent.glob(f"{log.name}.*"))):
        try:
            status = path.stat()
        except OSError:
            continue
        if path.is_file():
            found.append(LogOnDisk(path, status.st_size, int(status.st_mtime * 1000)))
    return found


async def log_text(log: LogOnDisk) -> AsyncIterator[bytes]:
    """Yield the file as long as it was, piece by piece: it may grow while it is read."""
    left = log.size
    with await asyncio.to_thread(log.path.open, "rb") as file:
        while left > 0 and (chunk := await asyncio.to_thread(file.read, min(_CHUNK, left))):
            left -= len(chunk)
            yield chunk
