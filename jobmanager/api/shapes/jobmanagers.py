"""The JobManagers of a cluster, and the lease by which one of them leads."""

from datetime import datetime
from uuid import UUID

from jobmanager.api.shapes.shape import Shape


class WarmRunners(Shape):
    """The runners that a JobManager keeps ready for jobs to come."""

    wanted: int
    primed: int
    starting: int


class JobManagerItem(Shape):
    id: UUID
    url: str
    host: str
    pid: int
    version: str
    started_at: datetime
    seen_at: datetime
    is_leader: bool
    warm: WarmRunners | None
    """Null: this JobManager does not lead, and keeps no warm runners."""


class LeaseItem(Shape):
    holder: UUID | None
    """The JobManager that leads, or led last."""
    url: str | None
    expires_at: datetime
    is_in_force: bool
    remaining_ms: int


class JobManagerList(Shape):
    items: list[JobManagerItem]
    leader: str | None
    """The leader's URL; null while no JobManager leads."""
    term: int
    lease: LeaseItem
