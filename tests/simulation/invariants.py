"""The invariants of the design, checked after every step, independently of the tested code.

Nothing here reads the state of the machines. This module keeps records of its own (what was
awaited, acked, completed; how far a job had come) from the actions of the parties.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from jobmanager.core.ids import CheckpointNumber, JobId, RegionId, SubtaskRef
from jobmanager.core.life.attempt import AttemptStatus, RunnerWentSilent
from jobmanager.core.life.checkpoint import Checkpoint, CheckpointStatus
from jobmanager.core.life.draft import Life, Step
from jobmanager.core.life.events import AttemptNews, LifeEvent
from jobmanager.core.life.job import JobResumeRequested, JobStatus
from jobmanager.core.life.lease import Term
from jobmanager.core.life.operation import OperationKind, OperationStatus
from jobmanager.core.life.savepoint import SavepointStatus
from jobmanager.core.plan.job_plan import SnapshotKind
from jobmanager.core.snapshots.manifest import Manifest
from jobmanager.core.steady_time import MOST_CORRECTION
from jobmanager.protocol.messages import BarrierAcks, RestorePointMessage
from taskrunner.core import restore
from taskrunner.core.restore import FromAttempt, Restore
from tests.simulation import snapshots, stream
from tests.simulation.storage import FileGone, JobStorage, RegionDirectory, SinkFiles
from tests.simulation.stream import StateFile

if TYPE_CHECKING:
    from tests.simulation.attempt_threads import AttemptThreads
    from tests.simulation.world import World

ACKS = "1 acks tell the truth"
ONCE = "2 a checkpoint completes once, when every awaited subtask has acked"
FENCED = "3 a superseded attempt or leader changes nothing"
KEPT = "4 nothing restorable is deleted"
NEWEST = "5 restore picks the newest"
OPERATIONS = "6 operations survive"
RUNNING = "7 RUNNING means running"
EXACTLY_ONCE = "8 output is exactly once"
MAP = "9 the map is the territory"
PAUSED = "11 a paused job stays paused until it is resumed or cancelled"
SILENT = "10 a runner counts as silent only if it was"


_REALLY_SILENT = 1 - MOST_CORRECTION
HEARTBEAT_TIMEOUT = timedelta(seconds=9)


class InvariantBroken(BaseException):
    """Not an `Exception`: no party may catch it."""

    def __init__(self, invariant: str, detail: str) -> None:
        self.invariant = invariant
        self.detail = detail
        super().__init__(f"{invariant}: {detail}")


@dataclass(slots=True)
class _Book:
    """What is known of one job."""

    awaited: dict[CheckpointNumber, frozenset[SubtaskRef]] = field(default_factory=dict)
    completed: set[CheckpointNumber] = field(default_factory=set)
    safe_rows: dict[RegionId, int] = field(default_factory=dict)
    """How many rows no restore may go back behind."""
    first_row: dict[RegionId, int] = field(default_factory=dict)
    """Where a job that was started from another's checkpoint begins."""
    visible_batch: dict[RegionId, int] = field(default_factory=dict)
    """The last batch that a completed checkpoint covers, or the savepoint of a stop or a change, or
    the savepoint from which another job went on with the output.
    """


class Invariants:
    def __init__(self, world: "World") -> None:
        self._world = world
        self._books: dict[JobId, _Book] = {}
        world.database.on_commit = self._committed
        world.database.on_step = self._stepped

    # ── told by the parties ───────────────────────────────────────────────────

    def acks_sent(self, attempt: "AttemptThreads", acks: BarrierAcks) -> None:
        for region, batch in acks.batches.items():
            directory = attempt.queries[RegionId(region)].directory
            if batch is not None and batch not in directory.commits:
                raise InvariantBroken(
                    ACKS, f"batch {batch} of {region} was acked and is not committed"
                )

    def restored(
        self,
        attempt: "AttemptThreads",
        region: RegionId,
        choice: Restore,
        draft: RegionDirectory,
    ) -> None:
        life = self._world.database.lives[attempt.job]
        if life.job.job.attempt != attempt.number:
            return  # it was replaced, and will notice
        rows = _rows_of(draft)
        wanted = self._book(attempt.job).safe_rows.get(region, 0)
        # Of the attempts before, the newest whose directory was made: what an older attempt
        # still committed when it had been replaced does not count, and is replayed. One that went
        # on from another's directory and committed nothing may have failed because of it.
        for _, directory in attempt.storage.older_attempts(life.job.base_attempt, attempt.number):
            origin, known = directory.origins.get(region), directory.regions.get(region)
            if known is not None and origin is not None:
                stood_still = known.last_committed == restore.batch_of(origin)
                if not (stood_still and isinstance(origin, FromAttempt)):
                    wanted = max(wanted, _rows_of(known))
                break
            if origin is not None and not isinstance(origin, FromAttempt):
                break
        if rows < wanted:
            raise InvariantBroken(
                NEWEST,
                f"attempt {attempt.number} starts {region} after {rows} rows, and {wanted} rows "
                f"were safe ({choice.why})",
            )

    def restore_failed(self, attempt: "AttemptThreads", error: Exception) -> None:
        stored = self._world.database.lives[attempt.job].attempts.get(attempt.number)
        is_over = stored is None or stored.attempt.status.is_terminal
        if isinstance(error, FileGone) and not is_over:
            raise InvariantBroken(KEPT, f"attempt {attempt.number} cannot be restored: {error}")

    # ── told by the database ──────────────────────────────────────────────────

    def _committed(self, term: Term | None) -> None:
        current = self._world.database.lease.term
        if term != current:
            raise InvariantBroken(FENCED, f"term {term} has committed in term {current}")

    def _stepped(self, before: Life | None, event: LifeEvent | None, step: Step) -> None:
        life = step.life
        if before is None:
            self._begin(life)
            return
        self._check_job(before, life, event)
        if isinstance(event, AttemptNews):
            self._check_news(before, event, life)
        for number, checkpoint in life.checkpoints.items():
            old = before.checkpoints.get(number)
            if old is None:
                self._triggered(life, checkpoint)
            elif old is not checkpoint:
                self._moved(before, life, old, checkpoint)
        for id, operation in life.operations.items():
            known = before.operations.get(id)
            if known is None and operation.savepoint_id is None:
                _check_meta_alone(before, life)
            if known is not None and known is not operation:
                self._operation_moved(before, life, known.operation.status, id)

    def _begin(self, life: Life) -> None:
        book, point = self._book(life.job.id), life.job.restore_point
        if point is None:
            return
        wire = RestorePointMessage(root=point.root, manifest=point.manifest, name=point.name)
        try:
            manifest, files = self._world.open_restore_point(wire)
        except FileGone as error:
            raise InvariantBroken(KEPT, f"a job was accepted, and {error}") from error
        for region in manifest.regions:
            found = snapshots.state_in(manifest, files, region)
            book.safe_rows[region] = book.first_row[region] = found[1] if found else 0
        self._output_continued(life.job.id, manifest)

    def _output_continued(self, job: JobId, manifest: Manifest) -> None:
        """A job that goes on with the output of jobs that have ended shows what they held back, up
        to the savepoint that it was started from: its recoveries do not go back behind that.
        """
        storage = self._world.storage
        for ancestor in manifest.lineage:
            if storage.of(ancestor.job).output_root == storage.of(job).output_root:
                covered = self._book(ancestor.job).visible_batch
                for sink, batch in ancestor.batches.items():
                    last = -1 if batch is None else batch
                    covered[RegionId(sink)] = max(covered.get(RegionId(sink), -1), last)

    def _check_job(self, before: Life, life: Life, event: LifeEvent | None) -> None:
        old, new = before.job.job, life.job.job
        if old.status.is_terminal and old != new:
            raise InvariantBroken(FENCED, f"a job that was {old.status} is {new.status}")
        if new.attempt not in (old.attempt, old.attempt + 1):
            raise InvariantBroken(FENCED, f"attempt {new.attempt} follows attempt {old.attempt}")
        for number, stored in before.attempts.items():
            was, now = stored.attempt, life.attempts[number].attempt
            if was is not now and was.status.is_terminal and was != now:
                raise InvariantBroken(
                    FENCED, f"attempt {number}, which was {was.status}, is {now.status}"
                )
        current = life.attempts[new.attempt].attempt
        if new.status is JobStatus.RUNNING and current.status is not AttemptStatus.RUNNING:
            raise InvariantBroken(RUNNING, f"job is running, its attempt is {current.status}")
        if old.status is JobStatus.PAUSED and new.attempt != old.attempt:
            if not isinstance(event, JobResumeRequested):
                raise InvariantBroken(PAUSED, f"{type(event).__name__} has started a paused job")
        elif new.status is JobStatus.PAUSED and not current.status.is_terminal:
            raise InvariantBroken(PAUSED, f"the job is paused, its attempt is {current.status}")
        under_way = [
            one
            for one in life.operations.values()
            if one.operation.status is OperationStatus.IN_PROGRESS
            and one.operation.kind is not OperationKind.SAVEPOINT
        ]
        if len(under_way) > 1:
            kinds = ", ".join(one.operation.kind for one in under_way)
            raise InvariantBroken(OPERATIONS, f"several operations are under way: {kinds}")

    def _check_news(self, before: Life, event: AttemptNews, life: Life) -> None:
        """News of an attempt that was replaced is news of nothing else."""
        current = before.job.job.attempt
        if isinstance(event.event, RunnerWentSilent):
            self._check_silence(before.job.id, event)
        if event.attempt != current and (
            life.job.job != before.job.job or life.attempts[current] != before.attempts[current]
        ):
            raise InvariantBroken(
                FENCED, f"news of attempt {event.attempt} has changed attempt {current}"
            )

    def _check_silence(self, job: JobId, event: AttemptNews) -> None:
        """By the simulation's own clock, which nobody steps."""
        database = self._world.database
        runner = database.runner_of(job, event.attempt)
        heard = database.heard_ms.get(runner.id) if runner is not None else None
        if heard is None:
            return
        silence = timedelta(milliseconds=self._world.scheduler.now - heard)
        if silence < _REALLY_SILENT * HEARTBEAT_TIMEOUT:
            said = event.event
            raise InvariantBroken(SILENT, f"{silence} after its last heartbeat: {said}")

    def _triggered(self, life: Life, checkpoint: Checkpoint) -> None:
        """The awaited set is written down before the barrier can be sent."""
        wanted = _subtasks(life)
        if frozenset(checkpoint.awaiting) != wanted:
            raise InvariantBroken(ONCE, f"checkpoint {checkpoint.number} awaits others")
        self._book(life.job.id).awaited[checkpoint.number] = wanted

    def _moved(self, before: Life, life: Life, old: Checkpoint, new: Checkpoint) -> None:
        if old.status is not CheckpointStatus.IN_PROGRESS and old.status is not new.status:
            raise InvariantBroken(
                ONCE, f"checkpoint {new.number}, which was {old.status}, is {new.status}"
            )
        if new.status is not CheckpointStatus.COMPLETED:
            return
        book = self._book(life.job.id)
        if new.number in book.completed:
            raise InvariantBroken(ONCE, f"checkpoint {new.number} has completed twice")
        missing = book.awaited[new.number] - set(new.snapshots)
        if missing:
            names = ", ".join(f"{one.vertex}/{one.subtask}" for one in sorted(missing))
            raise InvariantBroken(ONCE, f"checkpoint {new.number} is complete without {names}")
        attempt = before.attempts[new.attempt].attempt
        if new.attempt != before.job.job.attempt or attempt.status.is_terminal:
            raise InvariantBroken(
                FENCED, f"checkpoint {new.number} of attempt {new.attempt}, which is over, counts"
            )
        book.completed.add(new.number)
        self._check_completed(life, new)

    def _check_completed(self, life: Life, checkpoint: Checkpoint) -> None:
        """Everything that a completed checkpoint names is there, and is what it has to be."""
        manifest, files = self._files_of(life, checkpoint)
        assert checkpoint.stored is not None
        book = self._book(life.job.id)
        for region, batch in checkpoint.stored.batches.items():
            region_id = RegionId(region)
            try:
                found = snapshots.state_in(manifest, files, region_id)
            except FileGone as error:
                raise InvariantBroken(ACKS, str(error)) from error
            if found is None:
                continue
            state, rows = found
            if fault := stream.fault_in(state, rows):
                raise InvariantBroken(ACKS, f"checkpoint {checkpoint.number}, {region}: {fault}")
            self._check_map(life, checkpoint, region_id, state)
            if _is_gone_back_to(life, checkpoint):
                book.safe_rows[region_id] = max(book.safe_rows.get(region_id, 0), rows)
                last = -1 if batch is None else batch
                covered = max(book.visible_batch.get(region_id, -1), last)
                book.visible_batch[region_id] = covered

    def _files_of(
        self, life: Life, checkpoint: Checkpoint
    ) -> tuple[Manifest, dict[str, StateFile]]:
        storage = self._world.storage
        if checkpoint.is_savepoint:
            saved = next(
                one for one in life.savepoints.values() if one.checkpoint == checkpoint.number
            )
            there = storage.savepoints.get(saved.directory)
            if there is None:
                raise InvariantBroken(ACKS, f"{saved.directory} is complete and not there")
            return there.manifest, there.files
        job = storage.of(life.job.id)
        manifest = job.checkpoints.get(checkpoint.number)
        if manifest is None:
            raise InvariantBroken(
                ACKS, f"checkpoint {checkpoint.number} is complete, and has no manifest"
            )
        return manifest, job.pool

    def _check_map(
        self, life: Life, checkpoint: Checkpoint, region: RegionId, state: stream.Counts
    ) -> None:
        """Key groups are where the acks, and so Postgres, say that they are."""
        if len(state) != life.job.parallelism:
            raise InvariantBroken(
                MAP, f"{len(state)} state partitions at parallelism {life.job.parallelism}"
            )
        for ref, snapshot in checkpoint.snapshots.items():
            if ref.region == region and snapshot.kind is SnapshotKind.STATE:
                held = {stream.key_group_of(key) for key, _ in state[ref.subtask].counts}
                if not held <= set(snapshot.key_groups):
                    raise InvariantBroken(MAP, f"{ref} holds key groups {held}, and said others")

    def _operation_moved(self, before: Life, life: Life, status: OperationStatus, id: Any) -> None:
        operation = life.operations[id]
        if status is not OperationStatus.IN_PROGRESS and status is not operation.operation.status:
            raise InvariantBroken(
                OPERATIONS, f"an operation that was {status} is {operation.operation.status}"
            )
        if operation.operation.status is OperationStatus.ROLLED_BACK:
            self._rolled_back(life, operation)
        stops = operation.operation.kind in (OperationKind.STOP, OperationKind.CANCEL)
        is_complete = operation.operation.status is OperationStatus.COMPLETED
        if stops and is_complete and not life.job.job.status.is_terminal:
            raise InvariantBroken(
                OPERATIONS, f"a stop is complete, and the job is {life.job.job.status}"
            )

    def _rolled_back(self, life: Life, operation: Any) -> None:
        """The job is what it was, and goes on from the savepoint: from nothing older."""
        if life.job.parallelism != operation.change.before.parallelism:
            raise InvariantBroken(OPERATIONS, "rolled back, and the parallelism is not as before")
        if life.job.document != operation.change.before.document:
            raise InvariantBroken(OPERATIONS, "rolled back, and the graph is not as before")
        saved = self._world.storage.savepoints.get(
            life.savepoints[operation.savepoint_id].directory
        )
        if saved is None:
            raise InvariantBroken(OPERATIONS, "rolled back to a savepoint that is not there")
        book = self._book(life.job.id)
        for region in saved.manifest.regions:
            found = snapshots.state_in(saved.manifest, saved.files, region)
            book.safe_rows[region] = found[1] if found else 0

    # ── after every step ──────────────────────────────────────────────────────

    def check(self) -> None:
        database, storage = self._world.database, self._world.storage
        changed, database.changed = database.changed, set()
        everything = storage.has_lost_savepoints
        storage.has_lost_savepoints = False
        for there in storage.jobs.values():
            if there.trespass is not None:
                raise InvariantBroken(FENCED, there.trespass)
            if there.broken_promise is not None:
                raise InvariantBroken(EXACTLY_ONCE, there.broken_promise)
            for files in there.sinks.values():
                if not files.is_checked:
                    files.is_checked = True
                    self._check_output(there, files)
            if there.has_lost_files:
                there.has_lost_files = False
                everything = True
        for job in database.lives if everything else changed:
            if job in database.lives:
                self._check_kept(database.lives[job])

    def _check_kept(self, life: Life) -> None:
        """What is restorable by the database is whole in storage."""
        storage = self._world.storage
        there = storage.of(life.job.id)
        for number in life.restorable:
            manifest = there.checkpoints.get(number)
            if manifest is None:
                raise InvariantBroken(KEPT, f"checkpoint {number} has no manifest any more")
            for file in manifest.files():
                if file.location not in there.pool:
                    raise InvariantBroken(KEPT, f"{file.location} of checkpoint {number} is gone")
        for saved in life.savepoints.values():
            is_complete = saved.status is SavepointStatus.COMPLETED
            if is_complete and saved.directory not in storage.savepoints:
                raise InvariantBroken(KEPT, f"{saved.directory} is gone")

        self._check_restore_point(life)

    def _check_restore_point(self, life: Life) -> None:
        """What a job was started from is there until the job has a checkpoint of its own."""
        point = life.job.restore_point
        has_own = any(
            one.status is CheckpointStatus.COMPLETED
            and not one.is_savepoint
            and one.attempt >= life.job.base_attempt
            for one in life.checkpoints.values()
        )
        if point is None or has_own or life.job.job.status.is_terminal:
            return
        wire = RestorePointMessage(root=point.root, manifest=point.manifest, name=point.name)
        try:
            self._world.open_restore_point(wire)
        except FileGone as error:
            raise InvariantBroken(KEPT, f"a job needs it, and {error}") from error

    def _check_output(self, job: JobStorage, files: SinkFiles) -> None:
        seen: set[int] = set()
        shown = list(files.visible.items())
        for other in self._world.storage.jobs.values():
            is_same_place = other is not job and other.output_root == job.output_root
            if is_same_place and files.sink in other.sinks:
                shown += other.sinks[files.sink].visible.items()
        for name, rows in shown:
            for row in rows:
                if row != stream.expected(row[0]):
                    raise InvariantBroken(
                        EXACTLY_ONCE, f"{name} has {row}, and not {stream.expected(row[0])}"
                    )
                if row[0] in seen:
                    raise InvariantBroken(EXACTLY_ONCE, f"row {row[0]} is seen twice")
                seen.add(row[0])
        if files.is_held:
            self._check_held(job.job, files)

    def _check_held(self, job: JobId, files: SinkFiles) -> None:
        """Nothing is visible before its checkpoint is complete, or the whole input is processed."""
        covered = self._book(job).visible_batch.get(RegionId(files.sink), -1)
        for record in files.records.values():
            is_seen = any(final in files.visible for _, final in record.files)
            if is_seen and record.batch > covered and self._world.last_row_of(job) is None:
                raise InvariantBroken(
                    EXACTLY_ONCE, f"batch {record.batch} is visible, and its checkpoint is not"
                )

    def first_row(self, job: JobId, region: RegionId) -> int:
        return self._book(job).first_row.get(region, 0)

    def safe_rows(self, job: JobId, region: RegionId) -> int:
        return self._book(job).safe_rows.get(region, 0)

    def _book(self, job: JobId) -> _Book:
        found = self._books.get(job)
        if found is None:
            found = self._books[job] = _Book()
        return found


def _is_gone_back_to(life: Life, checkpoint: Checkpoint) -> bool:
    """Whether no recovery goes back behind it: that is so of every checkpoint, and of the savepoint
    of a stop or a change. A savepoint that the job runs on from is the user's, and may be gone.
    """
    if not checkpoint.is_savepoint:
        return True
    saved = next(one for one in life.savepoints.values() if one.checkpoint == checkpoint.number)
    kinds = [one.operation.kind for one in life.operations.values() if one.savepoint_id == saved.id]
    return OperationKind.SAVEPOINT not in kinds


def _check_meta_alone(before: Life, after: Life) -> None:
    """An operation without a savepoint changes what people read, and nothing that runs."""
    if after.job.revision != before.job.revision + 1:
        raise InvariantBroken(OPERATIONS, "a change of meta alone has made no revision")
    if (after.job.job, after.job.base_attempt) != (before.job.job, before.job.base_attempt):
        raise InvariantBroken(OPERATIONS, "a change of meta alone has changed what runs")
    if after.checkpoints != before.checkpoints:
        raise InvariantBroken(OPERATIONS, "a change of meta alone has taken a checkpoint")


def _subtasks(life: Life) -> frozenset[SubtaskRef]:
    """Whom a checkpoint has to await, by this module's own reckoning: for each region its source,
    its sink and the partitions of its count.
    """
    found = []
    for sink in (one.id for one in life.job.graph.vertices if one.id.startswith("out_")):
        region, count = RegionId(sink), f"count_{sink[-1]}"
        names = [("numbers", 1), (sink, 1), (count, life.job.parallelism)]
        found += [
            SubtaskRef(region, name, subtask)  # type: ignore[arg-type]
            for name, subtasks in names
            for subtask in range(subtasks)
        ]
    return frozenset(found)


def _rows_of(directory: RegionDirectory) -> int:
    last = directory.last_committed
    return 0 if last is None else directory.end_of(last)
