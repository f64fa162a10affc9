"""Chooses the state from which a region of a new attempt starts.

The newest of: the last batch that a previous attempt committed, and the latest
completed checkpoint. Only while there is neither, what the job was started from: a
savepoint, or a checkpoint of another job. A job that was rescaled or upgraded started
there anew: what was before does not count. The choice always says why it was made.

What a killed attempt left behind was never synced. After a power cut it may be damaged, and not
all damage can be seen. So a batch of it counts only if every file that it needs is found whole
(`newest_whole`), and an attempt that went on from another's directory and committed nothing is not
gone on from in its turn where there is anything durable (`PreviousAttempt.failed_start`).
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from jobmanager.core.ids import AttemptNumber, CheckpointNumber


@dataclass(frozen=True, slots=True)
class StartPoint:
    """A place in a Spark checkpoint directory that a query can start from."""

    batch: int | None
    """It is committed; None: the query starts with its first batch."""
    replays: bool
    """The batch after it had begun, and is run again with the same range."""

    @property
    def pending(self) -> int | None:
        """The batch that is run again."""
        return self.last_kept if self.replays else None

    @property
    def last_kept(self) -> int:
        """The last batch whose output stays."""
        return (-1 if self.batch is None else self.batch) + int(self.replays)


@dataclass(frozen=True, slots=True)
class PreviousAttempt:
    """The state of an earlier attempt: the newest attempt that committed or began a batch."""

    attempt: AttemptNumber
    batch: int | None
    """The last one it committed that is whole; None: it had only begun its first."""
    has_pending_batch: bool
    """Whether it had begun the batch after that: Spark's offset log has the range of that batch."""
    fault: str | None = None
    """Why its directory cannot be trusted; None: it can."""
    passed_over: str | None = None
    """Why nothing later in its directory is gone on from; None: there is nothing later."""
    failed_start: str | None = None
    """It went on from an attempt's directory too, and committed nothing; in words. Whatever the
    reason was: to start from there again may fail again, for ever."""


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
        nothing_durable = completed is None and saved is None
        if previous.failed_start is None or nothing_durable:
            return _from_attempt(previous, completed)
    distrust = _distrust(previous) if previous else ""
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


def start_points(
    committed: Collection[int], begun: Collection[int], not_before: int
) -> Iterator[StartPoint]:
    """Where a query can start in a directory with these batches, the newest first. Nothing before
    the batch `not_before` is of use, except to be told of: something durable is there.
    """
    for batch in sorted(committed, reverse=True):
        if batch < min(not_before, max(committed)):
            return
        if batch + 1 in begun:
            yield StartPoint(batch, replays=True)
        yield StartPoint(batch, replays=False)
    if not committed and 0 in begun:
        yield StartPoint(None, replays=True)


def newest_whole(
    attempt: AttemptNumber,
    points: Iterator[StartPoint],
    damage: Callable[[StartPoint], str | None],
    lost_output: Mapping[int, str],
) -> PreviousAttempt | None:
    """The newest of `points` that can be started from; None: there is no point at all.

    `damage` says what is wrong in the directory; `lost_output` has the batches that a sink has
    taken and cannot show, with the reason: such a batch has to be run again.
    """
    first_fault = None
    for point in points:
        fault = _lost(point, lost_output) or damage(point)
        if fault is None:
            return PreviousAttempt(attempt, point.batch, point.replays, passed_over=first_fault)
        first_fault = first_fault or f"{_named(point)} is damaged: {fault}"
    if first_fault is None:
        return None
    return PreviousAttempt(attempt, None, has_pending_batch=False, fault=first_fault)


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
            return StartPoint(batch, replays).last_kept
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
    at += f" ({previous.passed_over})" if previous.passed_over else ""
    at += f" ({previous.failed_start})" if previous.failed_start else ""
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


def _distrust(previous: PreviousAttempt) -> str:
    if previous.fault is not None:
        return f"; attempt {previous.attempt} is not usable: {previous.fault}"
    return f"; {previous.failed_start}"


def _lost(point: StartPoint, lost_output: Mapping[int, str]) -> str | None:
    return next((why for batch, why in lost_output.items() if batch <= point.last_kept), None)


def _named(point: StartPoint) -> str:
    return f"batch {point.last_kept}" + (", which had begun," if point.replays else "")
