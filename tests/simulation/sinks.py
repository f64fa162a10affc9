"""The `files` sink in simulated storage, step by step as `taskrunner/sinks/directory.py` does it.

The real rules, `taskrunner.core.sink_records`, `taskrunner.core.file_joins` and
`taskrunner.core.continuation`, decide what happens to a batch.
"""

from collections.abc import Callable, Sequence
from typing import assert_never

from jobmanager.core.ids import AttemptNumber, VertexId
from jobmanager.core.snapshots.manifest import Ancestor
from taskrunner.core import continuation, file_joins, sink_records
from taskrunner.core.continuation import Branch
from taskrunner.core.file_joins import JoinedFile
from taskrunner.core.sink_records import OutputFile, Record, RecordState, Recovery
from tests.simulation.scheduler import Steps
from tests.simulation.storage import JobStorage, SinkFiles, SinkRecord, Storage
from tests.simulation.stream import OutputRow

_END_OF_BATCHES = 2**63
_WANTED_ROWS = 12
"""Of a file, when small files are joined."""


class SinkWriter:
    """One sink as one attempt sees it."""

    def __init__(self, storage: JobStorage, files: SinkFiles, attempt: AttemptNumber) -> None:
        self._storage = storage
        self._files = files
        self._attempt = attempt
        self._restore_points: set[int] = set()

    def note_restore_point(self, batch: int) -> None:
        """A checkpoint or savepoint is about to be complete at this batch."""
        self._restore_points.add(batch)

    def write(self, batch: int, rows: Sequence[OutputRow]) -> Steps[None]:
        """Stages a batch, decides that it counts, publishes it unless it is to be held."""
        if not rows:
            return
        if self.is_decided(batch):  # it is replayed
            yield from self._finish(batch)
            return
        names = self._stage(batch, rows)
        yield None
        token = yield from self._storage.epoch_lock.acquire()
        try:
            self._storage.check_epoch(self._attempt)
            if not self.is_decided(batch):
                yield from self._decide(batch, names)
            if not self._files.is_held:
                yield from self._publish(batch)
        finally:
            self._storage.epoch_lock.release(token)

    def is_decided(self, batch: int) -> bool:
        return batch in self._files.records

    def show_at_end(self) -> Steps[None]:
        """Publishes all that was held: the input has ended."""
        yield from self.show_up_to(_END_OF_BATCHES)

    def show_up_to(self, batch: int) -> Steps[None]:
        """Publishes what was held for a checkpoint at `batch`."""
        waiting = (RecordState.HELD, RecordState.PENDING)
        token = yield from self._storage.epoch_lock.acquire()
        try:
            self._storage.check_epoch(self._attempt)
            self._join_up_to(batch)
            for one in sorted(self._files.records):
                if one <= batch and self._files.records[one].state in waiting:
                    yield from self._publish(one)
        finally:
            self._storage.epoch_lock.release(token)

    def recover(
        self, last_kept: int, last_visible: int | None, *, is_continued: bool = False
    ) -> Steps[None]:
        """Puts the directory right before an attempt starts after a restore. `is_continued`:
        another job goes on with this output, from where its user wanted it.
        """
        token = yield from self._storage.epoch_lock.acquire()
        try:
            self._storage.check_epoch(self._attempt)
            states = {batch: record.state for batch, record in self._files.records.items()}
            todo = sink_records.recoveries(states, last_kept, last_visible)
            for batch, recovery in todo.items():
                match recovery:
                    case Recovery.WITHDRAW:
                        if not is_continued:
                            self._check_promise(batch, last_kept)
                        yield from self._withdraw(batch)
                    case Recovery.PUBLISH:
                        yield from self._publish(batch)
                    case Recovery.KEEP:
                        pass
                    case _:
                        assert_never(recovery)
            self._delete_orphans()
        finally:
            self._storage.epoch_lock.release(token)

    def _join_up_to(self, batch: int) -> None:
        """As `HeldFiles.join_up_to`, whose outcome one record decides: in one step."""
        held = [
            self._as_record(one)
            for one in self._files.records.values()
            if one.batch <= batch and one.state is RecordState.HELD
            if one.attempt == self._attempt
        ]
        for group in file_joins.join_groups(held, self._restore_points, _WANTED_ROWS):
            last = group.records[-1].batch
            joined = []
            for number, each in enumerate(group.bins):
                staged = f"{self._attempt}-{last}-joined/part-{number}.parquet"
                rows = [row for file in each.files for row in self._files.staged.pop(file.staged)]
                self._files.staged[staged] = tuple(rows)
                joined.append(JoinedFile(each, staged, len(rows)))
            after = file_joins.after_join(group, joined, self._files.job, self._files.sink)
            for record in (*after.left, after.carrier):
                names = tuple((file.staged, file.final) for file in record.files)
                self._files.records[record.batch].files = names
            for gone in after.gone:
                del self._files.records[gone]

    def _as_record(self, one: SinkRecord) -> Record:
        files = tuple(
            OutputFile(staged, final, len(self._files.staged[staged]))
            for staged, final in one.files
        )
        rows = sum(file.bytes for file in files)
        return Record(one.batch, rows, one.attempt, files)

    def _stage(self, batch: int, rows: Sequence[OutputRow]) -> list[tuple[str, str]]:
        """Two files where there are two rows: so that a crash can come between them."""
        parts = [rows[::2], rows[1::2]] if len(rows) > 1 else [rows]
        names = []
        for part, some in enumerate(parts):
            staged = f"{self._attempt}-{batch}/part-{part}.parquet"
            final = sink_records.final_name(
                self._files.job, self._files.sink, batch, part, f"part-{part}.parquet"
            )
            self._files.staged[staged] = tuple(some)
            names.append((staged, final))
        return names

    def _decide(self, batch: int, names: Sequence[tuple[str, str]]) -> Steps[None]:
        state = RecordState.HELD if self._files.is_held else RecordState.PENDING
        self._storage.note_publication(self._attempt)
        self._files.records[batch] = SinkRecord(state, batch, self._attempt, tuple(names))
        yield None

    def _finish(self, batch: int) -> Steps[None]:
        token = yield from self._storage.epoch_lock.acquire()
        try:
            self._storage.check_epoch(self._attempt)
            if self._files.records[batch].state is RecordState.PENDING:
                yield from self._publish(batch)
        finally:
            self._storage.epoch_lock.release(token)

    def _publish(self, batch: int) -> Steps[None]:
        record = self._files.records[batch]
        record.state = RecordState.PENDING
        for staged, final in record.files:
            rows = self._files.staged.pop(staged, None)
            if rows is not None:
                self._storage.note_publication(self._attempt)
                self._files.visible[final] = rows
                self._files.is_checked = False
                yield None
        record.state = RecordState.PUBLISHED
        yield None

    def _check_promise(self, batch: int, last_kept: int) -> None:
        """Whatever waits for its checkpoint is never withdrawn once it can be seen."""
        seen = [one for _, one in self._files.records[batch].files if one in self._files.visible]
        if seen and self._files.is_held:
            self._storage.broken_promise = (
                f"batch {batch} was visible, and is withdrawn by a restore to batch {last_kept}"
            )

    def _withdraw(self, batch: int) -> Steps[None]:
        record = self._files.records[batch]
        record.state = RecordState.WITHDRAWN
        yield None
        for staged, final in record.files:
            self._files.visible.pop(final, None)
            self._files.staged.pop(staged, None)
            self._files.is_checked = False
            yield None
        del self._files.records[batch]

    def _delete_orphans(self) -> None:
        waiting = (RecordState.HELD, RecordState.PENDING)
        named = {
            staged
            for record in self._files.records.values()
            if record.state in waiting
            for staged, _ in record.files
        }
        for staged in [one for one in self._files.staged if one not in named]:
            del self._files.staged[staged]


class UnfencedWriter:
    """A `python` sink as one attempt sees it: the check before each batch
    (`taskrunner.spark.run.job`, `_check_attempt`) is all there is; then the batch takes its time,
    and its rows are out.
    """

    def __init__(
        self,
        storage: JobStorage,
        attempt: AttemptNumber,
        check_fence_time: Callable[[], None],
        takes: Callable[[], int],
    ) -> None:
        self._storage = storage
        self._attempt = attempt
        self._check_fence_time = check_fence_time
        self._takes = takes
        """Until when the batch runs."""

    def write(self, batch: int, rows: Sequence[OutputRow]) -> Steps[None]:
        self._storage.check_epoch(self._attempt)
        self._check_fence_time()
        yield self._takes()
        self._storage.note_publication(self._attempt)

    def show_at_end(self) -> Steps[None]:
        """Nothing is held back."""
        yield None

    def note_restore_point(self, batch: int) -> None:
        """Nothing is held back."""

    def show_up_to(self, batch: int) -> Steps[None]:
        """Nothing is held back."""
        yield None

    def recover(self, last_kept: int, last_visible: int | None) -> Steps[None]:
        """Nothing can be withdrawn."""
        yield None


def continue_output(
    storage: Storage, there: JobStorage, sink: VertexId, lineage: tuple[Ancestor, ...]
) -> Steps[None]:
    """Withdraws what is not part of the job's past, and shows what is, as
    `taskrunner/sinks/continuation.py`; keeps the attempts of the other jobs out for good.
    """
    neighbours = {
        one.job: one
        for one in storage.jobs.values()
        if one is not there and one.output_root == there.output_root and sink in one.sinks
    }
    others = {
        job: _branches(lineage_of_other, sink)
        for job, one in neighbours.items()
        if (lineage_of_other := one.sinks[sink].lineage) is not None
    }
    for job, batch in continuation.last_kept(_branches(lineage, sink), others).items():
        if (other := neighbours.get(job)) is None:
            continue
        guard = AttemptNumber(other.epoch + 1)
        yield from other.raise_epoch(guard)
        other.reading = guard
        yield from SinkWriter(other, other.sinks[sink], guard).recover(
            batch, batch, is_continued=True
        )
    there.sinks[sink].lineage = lineage


def _branches(lineage: tuple[Ancestor, ...], sink: VertexId) -> list[Branch]:
    known = [(one.job, one.batches[sink]) for one in lineage if sink in one.batches]
    return [Branch(job, -1 if batch is None else batch) for job, batch in known]
