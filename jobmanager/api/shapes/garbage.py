"""What a garbage collection deleted, or would delete."""

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
    """The items that were deleted, or would be deleted."""
    bytes: int
    """Size of the items. Deleting a file that has other links frees nothing."""
    left: list[GarbageItem]
    """Items that were not deleted, and which option would delete them."""
    kept: dict[str, int]
    """How many of each kind are needed."""
