"""What a crash would cost now: the rows that a job would read again, and the time that takes.

A recovery continues from the last batch that the lost attempt committed, if that attempt's
directory is still there. This is the cost if it is not, as after the loss of a machine: everything
since the last completed checkpoint is done again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from jobmanager.core.durations import milliseconds
from jobmanager.core.progress import RegionProgress, RestoredRegion


@dataclass(frozen=True, slots=True)
class CrashCost:
    rows: int
    """Rows that were read since the last completed checkpoint, of all regions."""
    replay_ms: int
    """How long their batches took, in the region where that was longest: regions run side by
    side.
    """
    start_ms: int | None
    """How long the present attempt took to start; None: it has not started yet."""
    is_at_least: bool
    """Whether it may be more: batches of an earlier attempt are not covered either, and nobody
    counted them.
    """


def crash_cost(
    progress: Sequence[RegionProgress],
    restored: Sequence[RestoredRegion],
    launched_at: datetime,
    running_at: datetime | None,
) -> CrashCost | None:
    """Return the cost from what the runner last reported; None: it does not report it."""
    counted = [one for one in progress if one.uncheckpointed_rows is not None]
    if not counted:
        return None
    continued = {one.region for one in restored if one.origin == "attempt"}
    return CrashCost(
        rows=sum(one.uncheckpointed_rows or 0 for one in counted),
        replay_ms=max(one.uncheckpointed_busy_ms or 0 for one in counted),
        start_ms=milliseconds(running_at - launched_at) if running_at else None,
        is_at_least=any(
            one.region in continued and not one.has_checkpoint_of_attempt for one in counted
        ),
    )
