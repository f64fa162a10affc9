"""Deletes old rows of the audit, and tokens that were revoked or expired long ago."""

import asyncio
from datetime import timedelta

from jobmanager.services.clock import Clock
from jobmanager.services.ports.access import AuditLog, Tokens

_BATCH = 1000
_BATCHES = 100
"""In one run. The rest is deleted by the next run."""
_PAUSE_SECONDS = 0.05


class AccessPruner:
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
