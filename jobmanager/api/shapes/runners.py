"""The runners, and which job each of them runs."""

from datetime import datetime
from uuid import UUID

from jobmanager.api.shapes.shape import Shape


class RunnerItem(Shape):
    id: UUID
    job: str
    attempt: int
    host: str
    pid: int | None
    process: UUID
    """The process that serves the runner: the id of the first runner that it served, or of a shared
    process.
    """
    is_shared: bool
    """Whether the process serves runners of other jobs at the same time. Memory is then that of the
    whole process.
    """
    spark_version: str | None
    launched_at: datetime
    registered_at: datetime | None
    heartbeat_at: datetime | None
    exited_at: datetime | None
    exit: str | None
    """How the process ended."""
    versions: dict[str, str]
    """Versions of Spark, Python, Java and Headgate, as far as the runner has reported them."""
    slots: int | None
    """Tasks that the runner's Spark runs at the same time."""
    resident_bytes: int | None
    """Memory of all processes of the runner."""
    heap_used_bytes: int | None
    heap_max_bytes: int | None


class RunnerPage(Shape):
    items: list[RunnerItem]
    next: str | None
