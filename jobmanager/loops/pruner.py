"""Deletes what nobody will ask for: rows about the past of jobs, and jobs that ended long ago.

Nothing that can be restored is deleted: a job with a savepoint stays, and a job with a retained
checkpoint too, unless a setting limits how long those are kept. Of a job that goes, the files are
deleted first: after a crash in between, the next run finds the job again.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

import structlog

from jobmanager.core.errors import StorageUnavailable
from jobmanager.core.pruning_limits import PruningLimits
from jobmanager.core.snapshots.garbage import GarbageLimits
from jobmanager.services.clock import Clock
from jobmanager.services.ports.pruning import EndedJob, Pruning
from jobmanager.services.ports.storage import Sweep
from jobmanager.services.ports.unit_of_work import UnitsOfWork

_BATCH = 2000
"""Rows in one transaction: nobody waits long for a lock."""
_JOBS = 20
"""Ended jobs in one transaction: each has thousands of rows."""
_ENTRIES = 100
"""Of the history of a live job, which stay however old they are."""
_log = structlog.get_logger(__name__)


class Pruner:
    def __init__(
        self, units: UnitsOfWork, sweep: Sweep, clock: Clock, limits: PruningLimits
    ) -> None:
        self._units = units
        self._sweep = sweep
        self._clock = clock
        self._limits = limits

    async def run_once(self) -> None:
        """Prune until nothing is left to prune, however long it takes: what comes in faster than a
        limited run prunes would grow for ever. Half of the time is for others.
        """
        limits = self._limits
        before = self._clock() - limits.history
        await self._batches(lambda rows: rows.savepoints(before, _BATCH))
        await self._batches(lambda rows: rows.operations(before, _BATCH))
        await self._batches(lambda rows: rows.checkpoints(limits.checkpoint_rows, _BATCH))
        await self._batches(lambda rows: rows.attempts(limits.attempts, _BATCH))
        await self._batches(lambda rows: rows.history_of_ended_jobs(before, _BATCH))
        await self._batches(lambda rows: rows.history_of_live_jobs(before, _ENTRIES, _BATCH))
        await self._prune_jobs()

    def failed(self) -> None:
        """Nothing to do: the loop keeps nothing between two runs."""

    async def _batches(self, prune: Callable[[Pruning], Awaitable[int]]) -> None:
        gone = _BATCH
        while gone >= _BATCH:
            began = time.monotonic()
            async with self._units() as uow:
                gone = await prune(uow.pruning)
                await uow.commit()
            await asyncio.sleep(time.monotonic() - began)

    async def _prune_jobs(self) -> None:
        last: EndedJob | None = None
        while jobs := await self._ended_jobs(last):
            began = time.monotonic()
            last = jobs[-1]
            await self._delete(jobs)
            if len(jobs) < _JOBS:
                return
            await asyncio.sleep(time.monotonic() - began)

    async def _ended_jobs(self, after: EndedJob | None) -> list[EndedJob]:
        now, limits = self._clock(), self._limits
        kept = limits.ended_checkpoints
        async with self._units() as uow:
            found = await uow.pruning.ended_jobs(
                now - limits.ended_jobs,
                limits.most_ended_jobs,
                now - kept if kept is not None else None,
                after,
                _JOBS,
            )
            await uow.commit()  # from here on no restore picks their checkpoints
        return list(found)

    async def _delete(self, jobs: list[EndedJob]) -> None:
        """Delete the jobs' directories, and then the rows of those whose directory is gone."""
        async with self._units() as uow:
            needed = await uow.pruning.needed_places()
        limits = GarbageLimits(self._clock(), unknown_jobs=True)
        gone: list[EndedJob] = []
        for job in jobs:
            try:
                judged = await self._sweep.unknown_job(job.id.hex, needed, limits, deletes=True)
            except StorageUnavailable as error:
                _log.warning("job not pruned", job=job.id.hex, error=str(error))
                continue
            if judged.left:
                _log.warning("job not pruned", job=job.id.hex, error=judged.left[0].why)
            else:
                gone.append(job)
        if not gone:
            return
        async with self._units() as uow:
            await uow.pruning.delete_jobs([job.id for job in gone])
            await uow.commit()
        _log.info("ended jobs pruned", jobs=[job.id.hex for job in gone])
