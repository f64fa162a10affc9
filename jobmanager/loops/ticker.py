"""Runs a loop's `run_once` again and again until told to stop."""

import asyncio
import contextlib
import time
from typing import Protocol

import structlog

_log = structlog.get_logger(__name__)
_PAUSE_AFTER_ERROR = 1.0


class BackgroundLoop(Protocol):
    async def run_once(self) -> None: ...
    def failed(self) -> None:
        """Called after a run failed, to drop what was measured across runs."""


async def tick(
    name: str,
    loop: BackgroundLoop,
    every: float,
    stop: asyncio.Event,
    wake: asyncio.Event | None = None,
    share: float = 1.0,
) -> None:
    """Run the loop every `every` seconds, and at once when `wake` is set. An error ends only that
    run. Runs take at most a `share` of the time: with many jobs there are fewer runs.
    """
    while not stop.is_set():
        if wake is not None:
            wake.clear()
        began = time.monotonic()
        try:
            await loop.run_once()
            pause = pause_after(time.monotonic() - began, every, share)
        except Exception as error:
            _log.warning("loop failed", loop=name, error=str(error), kind=type(error).__name__)
            loop.failed()
            pause = _PAUSE_AFTER_ERROR
        await _first(stop, wake, within=pause)


def pause_after(took: float, every: float, share: float) -> float:
    """Return a pause after which a run as long as the last takes at most its share of the time."""
    return max(every, took * (1 / share - 1))


async def _first(stop: asyncio.Event, wake: asyncio.Event | None, within: float) -> None:
    waits = [asyncio.ensure_future(e.wait()) for e in (stop, wake) if e is not None]
    try:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait(waits, timeout=within, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
