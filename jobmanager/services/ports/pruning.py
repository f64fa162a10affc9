"""Deletes rows that nothing needs any more, a limited number at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from jobmanager.core.ids import JobId


@dataclass(frozen=True, slots=True)
class EndedJob:
    id: JobId
    ended_at: datetime


class Pruning(Protocol):
    """Methods that delete return how many rows: fewer than `limit` means that nothing is left."""

    async def savepoints(self, before: datetime, limit: int) -> int:
        """Delete rows of savepoints that failed or were disposed of before this time, with their
        operations.
        """

    async def operations(self, before: datetime, limit: int) -> int:
        """Delete operations that ended before this time."""

    async def checkpoints(self, keep: int, limit: int) -> int:
        """Delete rows that nothing needs, beyond the newest `keep` of each job. A row stays if the
        checkpoint can be restored or is under way, or if it belongs to a savepoint.
        """

    async def attempts(self, keep: int, limit: int) -> int:
        """Delete ended attempts beyond the newest `keep` of each job, with their runners, unless
        the row of a checkpoint refers to the attempt.
        """

    async def history_of_ended_jobs(self, before: datetime, limit: int) -> int:
        """Delete old entries of jobs that ended before this time."""

    async def history_of_live_jobs(self, before: datetime, keep: int, limit: int) -> int:
        """Delete old entries of jobs that have not ended, beyond the newest `keep` of each job."""

    async def ended_jobs(
        self,
        ended_before: datetime,
        most: int,
        checkpoints_before: datetime | None,
        after: EndedJob | None,
        limit: int,
    ) -> Sequence[EndedJob]:
        """Return jobs that ended before this time, or are not among the `most` that ended last, and
        that nothing needs: they have no live runner, no effect that is not done, no savepoint. A
        job whose retained checkpoints can be restored is returned only if it ended before
        `checkpoints_before`; from then on no restore picks those checkpoints. In the order in which
        they ended, `after` the given one.
        """

    async def needed_places(self) -> frozenset[str]:
        """Return the URIs of all savepoints, and of whatever live jobs were started from."""

    async def delete_jobs(self, jobs: Sequence[JobId]) -> None:
        """Delete these ended jobs with everything about them."""

    async def forgotten_runners(
        self, runners: Sequence[str], exited_before: datetime
    ) -> frozenset[str]:
        """Return those of these runner ids that have no row, or that exited before this time."""
