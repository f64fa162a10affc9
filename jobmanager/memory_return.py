"""Gives memory back to the machine after a flood of requests is over.

A flood leaves two things behind. Closed connections refer to each other, so only Python's collector
of cycles frees them, and in a server the collector looks at old objects rarely
(`cycle_collection.py`). And the C library keeps freed memory for itself, scattered over the heaps
of several threads. Without this loop a server holds what its worst minute took, for ever, and each
flood adds a little.
"""

import asyncio
import ctypes
import gc
from collections.abc import Callable

import psutil
import structlog

EVERY_SECONDS = 15.0
_WORTH_IT = 16 * 2**20
"""Growth, in bytes, from which on memory is looked for. A look stops all requests for as long as
the collector needs: about 0.1 s with a million objects.
"""
_ARENAS = 2
"""Heaps of the C library. By default there are eight for each core, of which each keeps what was
freed in it."""
_M_ARENA_MAX = -8
_log = structlog.get_logger(__name__)


def use_few_heaps() -> None:
    """To be called when the process starts, before it has threads."""
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_M_ARENA_MAX, _ARENAS)


class MemoryReturn:
    def __init__(
        self,
        memory: Callable[[], int] = lambda: int(psutil.Process().memory_info().rss),
    ) -> None:
        """`memory` tells how much memory the process has, in bytes."""
        self._memory = memory
        self._least = memory()
        """What the process had at least since memory was last returned."""

    async def run_once(self) -> None:
        before = self._memory()
        self._least = min(self._least, before)
        if before < self._least + _WORTH_IT:
            return
        freed = gc.collect()
        await asyncio.to_thread(_trim)
        after = self._memory()
        _log.info("memory returned", mib_before=before >> 20, mib_after=after >> 20, objects=freed)
        self._least = after

    def failed(self) -> None:
        """The next run measures again."""


def _trim() -> None:
    """Has no effect where the C library is not glibc."""
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)
