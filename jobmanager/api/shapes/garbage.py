"""What collecting garbage deleted, or would delete."""

from jobmanager.api.shapes.shape import Shape
from jobmanager.core.snapshots.garbage import GarbageKind


class GarbageItem(Shape):
    path: str
    kind: GarbageKind
    bytes: int
    why: str


class GarbageResponse(Shape):
    dry_run: bool
    items: list[GarbageItem]
    """What was deleted, or would be."""
    bytes: int
    """Of the items. A file with links elsewhere frees nothing."""
    left: list[GarbageItem]
    """What was left alone, and what would delete it."""
    kept: dict[str, int]
    """How many of each kind are needed."""
