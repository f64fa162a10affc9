"""The simulated storage that all parties share and that outlives every process, with its locks.

The layout is that of `taskrunner/snapshots/layout.py`: the epoch, a directory for each attempt
with Spark's own logs, the pool, checkpoints, savepoints, and the sinks' directories. A file
appears atomically; operations of several steps yield between the steps.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from jobmanager.core.ids import AttemptNumber, CheckpointNumber, JobId, RegionId, VertexId
from jobmanager.core.snapshots.manifest import Ancestor, Manifest
from taskrunner.core.restore import Restore
from taskrunner.core.sink_records import RecordState
from tests.simulation.scheduler import Scheduler, Signal, Steps
from tests.simulation.stream import Counts, OutputRow, StateFile

LOCK_WAIT_MS = 120_000
WREST_AFTER_MS = 10_000


class Superseded(Exception):
    """A newer attempt has raised the epoch."""


class LockUnavailable(Exception):
    """Another process held the lock for too long."""


class CheckpointDiscarded(Exception):
    """The checkpoint was given up, and discarded, before its manifest was there."""


class FileGone(Exception):
    """A file that a manifest names is not there."""


class FileLock:
    """A lock on a file. It ends with the process that holds it, and can be wrested from it."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._holder: object | None = None
        self._freed = Signal()

    def acquire(self, wait_ms: int = LOCK_WAIT_MS) -> Steps[object]:
        """Returns what `release` wants. Raises `LockUnavailable`."""
        deadline = self._scheduler.now + wait_ms
        while self._holder is not None:
            if self._scheduler.now >= deadline:
                raise LockUnavailable
            yield self._freed, deadline
        self._holder = token = object()
        return token

    def release(self, token: object) -> None:
        if self._holder is token:
            self._holder = None
            self._freed.fire()

    def wrest(self) -> Steps[None]:
        """As `jobmanager.files.locks.wrest`: the old holder goes on believing that it has it."""
        try:
            token = yield from self.acquire(WREST_AFTER_MS)
        except LockUnavailable:
            self._holder = None
            self._freed.fire()
            return
        self.release(token)


@dataclass(slots=True)
class RegionDirectory:
    """Spark's checkpoint directory of one region in one attempt."""

    offsets: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Batch to its range of rows, written before the batch runs."""
    commits: dict[int, Counts] = field(default_factory=dict)
    """Batch to the state after it, written when its output is out."""

    @property
    def last_committed(self) -> int | None:
        return max(self.commits) if self.commits else None

    @property
    def last_begun(self) -> int | None:
        return max(self.offsets) if self.offsets else None

    def end_of(self, batch: int) -> int:
        return self.offsets[batch][1]


@dataclass(slots=True)
class AttemptDirectory:
    regions: dict[RegionId, RegionDirectory] = field(default_factory=dict)
    """A region whose clone is not whole yet is not there."""
    origins: dict[RegionId, Restore] = field(default_factory=dict)
    """What each region's clone is made of: written before any output is withdrawn."""
    result: object | None = None
    """How the attempt ended: the runner's last word."""


@dataclass(slots=True)
class SavepointDirectory:
    manifest: Manifest
    files: dict[str, StateFile]
    """Location to content."""


@dataclass(slots=True)
class SinkRecord:
    state: RecordState
    batch: int
    attempt: AttemptNumber
    files: tuple[tuple[str, str], ...]
    """Where each file is staged, and its final name."""


@dataclass(slots=True)
class SinkFiles:
    """One sink's directory as one job writes to it."""

    job: JobId
    sink: VertexId
    is_held: bool
    records: dict[int, SinkRecord] = field(default_factory=dict)
    staged: dict[str, tuple[OutputRow, ...]] = field(default_factory=dict)
    visible: dict[str, tuple[OutputRow, ...]] = field(default_factory=dict)
    """What readers see."""
    lineage: tuple[Ancestor, ...] | None = None
    """The jobs whose output this one goes on with; None: it was not started from another's."""
    is_checked: bool = False
    """No file has become visible, and none has gone, since the invariants were last checked."""


class JobStorage:
    def __init__(self, job: JobId, scheduler: Scheduler) -> None:
        self.job = job
        self.output_root = job.hex
        """Where its sinks write: a job that goes on with another's output has the same."""
        self.lineage: tuple[Ancestor, ...] = ()
        """The jobs that it goes back to; not itself."""
        self.epoch = 0
        self.epoch_lock = FileLock(scheduler)
        self.pool_lock = FileLock(scheduler)
        self.attempts: dict[AttemptNumber, AttemptDirectory] = {}
        self.pool: dict[str, StateFile] = {}
        self.checkpoints: dict[CheckpointNumber, Manifest] = {}
        self.discarded: set[CheckpointNumber] = set()
        """Without a manifest: there will be none."""
        self.sinks: dict[VertexId, SinkFiles] = {}
        self.reading = AttemptNumber(0)
        """The newest attempt that has begun to read what is there: for the invariants only."""
        self.trespass: str | None = None
        """An older attempt published something after that: for the invariants only."""
        self.broken_promise: str | None = None
        """Output that had waited for its checkpoint was withdrawn: for the invariants only."""
        self.has_lost_files = False
        """Something was deleted since the invariants were last checked."""

    def raise_epoch(self, attempt: AttemptNumber) -> Steps[None]:
        """As `taskrunner.snapshots.fence`. Raises `Superseded`."""
        token = yield from self.epoch_lock.acquire()
        try:
            self.check_epoch(attempt)
            yield None
            self.epoch = attempt
        finally:
            self.epoch_lock.release(token)
        yield from self.pool_lock.wrest()

    def check_epoch(self, attempt: AttemptNumber) -> None:
        if self.epoch > attempt:
            raise Superseded(f"attempt {attempt} was superseded by attempt {self.epoch}")

    def note_publication(self, attempt: AttemptNumber) -> None:
        if self.reading > attempt:
            self.trespass = (
                f"attempt {attempt} published output after attempt {self.reading} had begun to "
                "read what was there"
            )

    def older_attempts(
        self, base: AttemptNumber, attempt: AttemptNumber
    ) -> Iterator[tuple[AttemptNumber, AttemptDirectory]]:
        """Newest first."""
        for number in sorted(self.attempts, reverse=True):
            if base <= number < attempt:
                yield number, self.attempts[number]

    def discard_attempts(self, before: AttemptNumber) -> None:
        for number in [one for one in self.attempts if one < before]:
            del self.attempts[number]
            self.has_lost_files = True

    def discard_checkpoint(
        self, number: CheckpointNumber, was_completed: bool = False
    ) -> Steps[None]:
        """The manifest goes first, then the files that no other manifest names. Raises
        `LockUnavailable`, at once: then it is put back.
        """
        token = yield from self.pool_lock.acquire(0)
        try:
            manifest = self.checkpoints.pop(number, None)
            if manifest is None:
                if not was_completed:
                    self.discarded.add(number)
                return
            self.has_lost_files = True
            yield None
            still_named = {
                file.location for other in self.checkpoints.values() for file in other.files()
            }
            for file in manifest.files():
                if file.location not in still_named:
                    self.pool.pop(file.location, None)
            self.has_lost_files = True
        finally:
            self.pool_lock.release(token)


class Storage:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.jobs: dict[JobId, JobStorage] = {}
        self.savepoints: dict[str, SavepointDirectory] = {}
        """Directory to what is in it."""
        self.has_lost_savepoints = False

    def of(self, job: JobId) -> JobStorage:
        found = self.jobs.get(job)
        if found is None:
            found = self.jobs[job] = JobStorage(job, self._scheduler)
        return found

    def dispose_savepoint(self, directory: str) -> None:
        self.savepoints.pop(directory, None)
        self.has_lost_savepoints = True
