"""Chooses the state from which a region of a new attempt starts.

The newer of two states counts: the last batch that a previous attempt committed, and the latest
completed checkpoint. If there is neither, the region starts from the job's restore point: a
savepoint, or a checkpoint of another job. A rescale or an upgrade sets a new restore point, and
state from before it does not count. Each choice carries its reason.
"""

from dataclasses import dataclass

from jobmanager.core.ids import AttemptNumber, CheckpointNumber


@dataclass(frozen=True, slots=True)
class PreviousAttempt:
    """The state of an earlier attempt: the newest attempt that committed or began a batch."""

    attempt: AttemptNumber
    batch: int | None
    """The last batch it committed; None: it had only begun its first batch."""
    has_pending_batch: bool
    """Whether it had begun the batch after that: Spark's offset log has the range of that batch."""
    fault: str | None = None
    """Why its directory cannot be trusted; None: it can."""


@dataclass(frozen=True, slots=True)
class CompletedCheckpoint:
    checkpoint: CheckpointNumber
    batch: int | None
    """None: the region had no batch then."""


@dataclass(frozen=True, slots=True)
class SavedRegion:
    """The region in the restore point that the job was started from."""

    point: str
    """The restore point in words, for the reason."""
    is_known: bool
    """Whether the restore point has the region at all."""
    batch: int | None
    """None: the region had no batch then."""


@dataclass(frozen=True, slots=True)
class FromScratch:
    why: str


@dataclass(frozen=True, slots=True)
class FromAttempt:
    attempt: AttemptNumber
    batch: int | None
    """None: the region continues with the first batch, which the attempt had begun."""
    replays: bool
    """Whether the next batch had begun; it is run again with the same range."""
    why: str


@dataclass(frozen=True, slots=True)
class FromCheckpoint:
    checkpoint: CheckpointNumber
    batch: int
    why: str


@dataclass(frozen=True, slots=True)
class FromSavepoint:
    """From a savepoint, or from a checkpoint of another job."""

    batch: int
    why: str


Restore = FromScratch | FromAttempt | FromCheckpoint | FromSavepoint


def choose(
    previous: PreviousAttempt | None,
    completed: CompletedCheckpoint | None,
    saved: SavedRegion | None = None,
) -> Restore:
    """Chooses where to start from, given the available states."""
    if previous is not None and previous.fault is None:
        return _from_attempt(previous, completed)
    distrust = f"; attempt {previous.attempt} is not usable: {previous.fault}" if previous else ""
    if completed is not None and completed.batch is not None:
        nothing_newer = distrust or "; no previous attempt committed a batch"
        return FromCheckpoint(
            completed.checkpoint,
            completed.batch,
            f"checkpoint {completed.checkpoint} is at batch {completed.batch}{nothing_newer}",
        )
    if completed is not None:
        return FromScratch(
            f"checkpoint {completed.checkpoint} was taken before the first batch{distrust}"
        )
    if saved is not None:
        return _from_saved(saved, distrust)
    return FromScratch(f"there is no checkpoint and no committed batch{distrust}")


def batch_of(restore: Restore) -> int | None:
    """The last batch whose effects the restored region has."""
    return None if isinstance(restore, FromScratch) else restore.batch


def last_kept_batch(restore: Restore) -> int:
    """The last batch whose output stays; output published after it is withdrawn.

    A batch that is replayed with the same range gives the same rows, so its published output
    stays too.
    """
    match restore:
        case FromScratch():
            return -1
        case FromAttempt(batch=batch, replays=replays):
            committed = -1 if batch is None else batch
            return committed + 1 if replays else committed
        case FromCheckpoint(batch=batch) | FromSavepoint(batch=batch):
            return batch


def _from_saved(saved: SavedRegion, distrust: str) -> Restore:
    if not saved.is_known:
        return FromScratch(f"{saved.point} does not have this region{distrust}")
    if saved.batch is None:
        return FromScratch(f"{saved.point} was taken before the first batch{distrust}")
    nothing_since = distrust or "; the job has committed nothing since"
    return FromSavepoint(saved.batch, f"{saved.point} is at batch {saved.batch}{nothing_since}")


def _from_attempt(previous: PreviousAttempt, completed: CompletedCheckpoint | None) -> Restore:
    if previous.batch is None:
        at = f"attempt {previous.attempt} had begun its first batch"
    else:
        at = f"attempt {previous.attempt} committed batch {previous.batch}"
    if completed is None:
        why = f"{at}; there is no checkpoint"
    elif completed.batch is None:
        why = f"{at}; checkpoint {completed.checkpoint} was taken before the first batch"
    elif previous.batch is not None and completed.batch <= previous.batch:
        why = f"{at}, checkpoint {completed.checkpoint} is at batch {completed.batch}"
    else:
        return FromCheckpoint(
            completed.checkpoint,
            completed.batch,
            f"checkpoint {completed.checkpoint} is at batch {completed.batch}, "
            f"{at}, which is older",
        )
    return FromAttempt(previous.attempt, previous.batch, previous.has_pending_batch, why)
