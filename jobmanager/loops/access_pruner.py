"""Forgets the audit of long ago, and tokens that ended long ago."""

import asyncio
from datetime import timedelta

from jobmanager.services.clock import Clock
from jobmanager.services.ports.access import AuditLog, Tokens

_BATCH = 1000
_BATCHES = 100
"""In one run. What is left waits for the next."""
_PAUSE_SECONDS = 0.05


class AccessPruner:
    """Runs beside the pruner of jobs, as often."""

    def __init__(self, audit: AuditLog, tokens: Tokens, clock: Clock, keep: timedelta) -> None:
        self._audit = audit
        self._tokens = tokens
        self._clock = clock
        self._keep = keep

    async def run_once(self) -> None:
        before = self._clock() - self._keep
        await self._tokens.prune(before)
        for _ in range(_BATCHES):
            if await self._audit.prune(before, _BATCH) < _BATCH:
                break
            await asyncio.sleep(_PAUSE_SECONDS)

    def failed(self) -> None:
        """Nothing is remembered between two runs."""
