"""Chooses the state from which a region of a new attempt starts.

The newer of two states counts: the last batch that a previous attempt committed, and the latest
completed checkpoint. If there is neither, the region starts from the job's restore point: a
savepoint, or a checkpoint of another job. A rescale or an upgrade sets a new restore point, and
state from before it does not count. Each choice carries its reason.

Spark does not sync its files, so after a power cut the directory of an attempt may be damaged, and
not all damage can be detected. A batch counts only if all files that it needs are undamaged
(`newest_whole`). If an attempt continued from another attempt's directory and committed nothing,
the next attempt prefers a checkpoint or savepoint (`PreviousAttempt.failed_start`).
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from jobmanager.core.ids import AttemptNumber, CheckpointNumber


@dataclass(frozen=True, slots=True)
class StartPoint:
    """A place in a Spark checkpoint directory that a query can start from."""

    batch: int | None
    """The last committed batch; None: the query starts with its first batch."""
    replays: bool
    """Whether the batch after that had begun, and is run again with the same range."""

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
    """The last batch it committed that is undamaged; None: it had only begun its first batch."""
    has_pending_batch: bool
    """Whether it had begun the batch after that: Spark's offset log has the range of that batch."""
    fault: str | None = None
    """Why its directory cannot be trusted; None: it can."""
    passed_over: str | None = None
    """Why later batches in its directory are not used; None: there are no later batches."""
    failed_start: str | None = None
    """Says that the attempt itself continued from an attempt's directory and committed nothing;
    None: it did not. Whatever the reason was, the same start may fail again every time."""


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
    """The points from which a query can start in a directory with these batches, newest first.

    Batches before `not_before` are left out, unless there is no later one: a checkpoint is newer.
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
    """The newest undamaged point of an attempt's directory; None: there is no point at all.

    `damage` says what is wrong in the directory; `lost_output` maps each batch that a sink has
    committed and cannot publish to the reason: such a batch has to be run again.
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
