"""Savepoints."""

from datetime import datetime
from typing import Any

from jobmanager.api.shapes.shape import Rfc3339, Shape
from jobmanager.core.life.savepoint import SavepointStatus


class SavepointRegion(Shape):
    """The position of one region of the job."""

    batch: int | None
    offsets: dict[str, Any]
    """Offsets by source vertex, as Spark writes them."""
    watermark: Rfc3339 | None


class SavepointResponse(Shape):
    id: str
    path: str
    job: str | None
    """Null: the savepoint was adopted from a plain Spark query."""
    checkpoint: int
    status: SavepointStatus
    graph_revision: int
    parallelism: int
    max_parallelism: int
    regions: dict[str, SavepointRegion]
    """Empty until the savepoint is complete."""
    bytes: int | None
    created_at: datetime
    completed_at: datetime | None
    disposed_at: datetime | None
    failure: str | None
    labels: dict[str, str]
    parent: str | None
    """The state that the job had started from, or the origin of an adopted savepoint."""
    drained: bool
    """Every open window was emitted, and the watermark is at the end of time: a job starts from it
    only with `allow_drained`."""


class SavepointPage(Shape):
    items: list[SavepointResponse]
    next: str | None
