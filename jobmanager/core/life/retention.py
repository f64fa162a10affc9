"""Which completed checkpoints may go. Pure: the files are someone else's business."""

from collections.abc import Sequence

from jobmanager.core.ids import CheckpointNumber


def superfluous(
    completed: Sequence[CheckpointNumber], retained: int
) -> tuple[CheckpointNumber, ...]:
    """The completed checkpoints beyond the newest `retained`, oldest first. Never the newest."""
    keep = max(retained, 1)
    return tuple(sorted(completed)[:-keep])
