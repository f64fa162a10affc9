"""Decides which completed checkpoints may be deleted. Pure: it deletes no files.

Which checkpoints other jobs need is asked of the database, which has all jobs:
`store/life_query.py` states `needs_restore_point` and `pinned` in SQL, and a test compares the two
on random data.
"""

from collections.abc import Iterable, Sequence

from jobmanager.core.ids import CheckpointNumber, JobId
from jobmanager.core.life.checkpoint import Checkpoint, CheckpointStatus
from jobmanager.core.life.records import StoredJob


def superfluous(
    completed: Sequence[CheckpointNumber], retained: int
) -> tuple[CheckpointNumber, ...]:
    """Return completed checkpoints beyond the newest `retained`, oldest first; never the newest."""
    keep = max(retained, 1)
    return tuple(sorted(completed)[:-keep])


def needs_restore_point(job: StoredJob, checkpoints: Iterable[Checkpoint]) -> bool:
    """Whether a job still needs its restore point: it has not ended, and has no checkpoint of its
    own since. `checkpoints` are its own.
    """
    is_safe = any(
        one.status is CheckpointStatus.COMPLETED
        and not one.is_savepoint
        and one.attempt >= job.base_attempt
        for one in checkpoints
    )
    return not job.job.status.is_terminal and not is_safe


def pinned(job_id: JobId, in_need: Iterable[StoredJob]) -> frozenset[CheckpointNumber]:
    """Return the checkpoints of a job that must be kept, because they are restore points which
    other jobs still need.
    """
    points = [job.restore_point for job in in_need if job.restore_point is not None]
    return frozenset(
        CheckpointNumber(point.checkpoint)
        for point in points
        if point.job == job_id.hex and point.checkpoint is not None
    )
