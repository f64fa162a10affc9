"""Deletes old rows: of old checkpoints, and the history of jobs that ended long ago."""

import asyncio
from datetime import timedelta

from jobmanager.services.clock import Clock
from jobmanager.services.ports.unit_of_work import UnitsOfWork

_BATCH = 500
"""Rows deleted in one transaction: few, so that locks are held only briefly."""
_BATCHES = 100
"""Transactions in one run. Remaining rows wait for the next run."""
_PAUSE_SECONDS = 0.05


class Pruner:
    def __init__(
        self, units: UnitsOfWork, clock: Clock, keep_checkpoints: int, keep_history: timedelta
    ) -> None:
        self._units = units
        self._clock = clock
        self._keep_checkpoints = keep_checkpoints
        self._keep_history = keep_history

    async def run_once(self) -> None:
        for prune in (self._prune_checkpoints, self._prune_history):
            for _ in range(_BATCHES):
                if await prune() < _BATCH:
                    break
                await asyncio.sleep(_PAUSE_SECONDS)

    def failed(self) -> None:
        """Nothing to do: the loop keeps nothing between two runs."""

    async def _prune_checkpoints(self) -> int:
        async with self._units() as uow:
            gone = await uow.checkpoints.prune(self._keep_checkpoints, _BATCH)
            await uow.commit()
        return gone

    async def _prune_history(self) -> int:
        async with self._units() as uow:
            before = self._clock() - self._keep_history
            gone = await uow.history.prune(before, _BATCH)
            await uow.commit()
        return gone
