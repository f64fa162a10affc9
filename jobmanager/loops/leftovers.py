"""Deletes what runners that are gone have left on this machine: temporary files at once, logs when
the database has forgotten the runner. Every server does so, not only the leader: nobody else can
reach its disk.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Protocol

import structlog

from jobmanager.services.clock import Clock
from jobmanager.services.ports.unit_of_work import UnitsOfWork

EVERY_SECONDS = 60.0
_BATCH = 500
_log = structlog.get_logger(__name__)


class RunnerFiles(Protocol):
    """The files of runners on this machine."""

    async def delete_temporary_files(self) -> None:
        """Delete the temporary directories of runners that have no process any more."""

    async def directories_of_the_gone(self) -> Sequence[str]:
        """Return the ids of runners that have a directory, and for a while had no process."""

    async def delete_directories(self, runners: Iterable[str]) -> None: ...


class Leftovers:
    def __init__(
        self, units: UnitsOfWork, files: RunnerFiles, clock: Clock, keep_logs: timedelta
    ) -> None:
        self._units = units
        self._files = files
        self._clock = clock
        self._keep_logs = keep_logs

    async def run_once(self) -> None:
        await self._files.delete_temporary_files()
        gone = await self._files.directories_of_the_gone()
        for first in range(0, len(gone), _BATCH):
            async with self._units() as uow:
                forgotten = await uow.pruning.forgotten_runners(
                    gone[first : first + _BATCH], self._clock() - self._keep_logs
                )
            if forgotten:
                await self._files.delete_directories(forgotten)
                _log.info("logs of runners deleted", runners=sorted(forgotten))

    def failed(self) -> None:
        """Nothing is remembered between two runs."""
