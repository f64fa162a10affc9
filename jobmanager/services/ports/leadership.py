"""Leadership: the lease, and the JobManagers that could hold it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from jobmanager.core.ids import (
    JobManagerId,
)
from jobmanager.core.life.lease import Candidate, Lease, Term


@dataclass(frozen=True, slots=True)
class JobManager:
    """One server."""

    id: JobManagerId
    url: str
    host: str
    pid: int
    version: str
    started_at: datetime
    seen_at: datetime
    """When the JobManager last reported, by the database's clock."""
    warm: Mapping[str, int] | None = None
    """Its warm runners: `wanted`, `primed`, `starting`. None: it keeps none."""


@dataclass(frozen=True, slots=True)
class Election:
    """Which JobManager leads and which others could, read at one moment."""

    at: datetime
    """The database's time."""
    lease: Lease
    jobmanagers: Sequence[JobManager]


class Leases(Protocol):
    """The lease, and the list of JobManagers. Each call is a transaction."""

    async def look(self) -> Election: ...
    async def take(self, candidate: Candidate, seen: Term, duration: timedelta) -> Term | None: ...
    async def renew(self, term: Term, duration: timedelta) -> bool: ...
    async def release(self, term: Term) -> None: ...
    async def attend(self, jobmanager: JobManager) -> None: ...
    async def leave(self, jobmanager: JobManagerId) -> None: ...


class WhoLeads(Protocol):
    """Whether this JobManager leads, and what it knows of the others."""

    @property
    def term(self) -> Term | None:
        """The term of this JobManager; None: it does not lead."""

    @property
    def leader_url(self) -> str | None:
        """The leader's URL; None: no leader is known."""

    @property
    def urls(self) -> Sequence[str]:
        """The URLs of all JobManagers, the leader's first."""

    async def look(self) -> Election: ...
