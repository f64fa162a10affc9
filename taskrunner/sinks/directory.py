"""A directory of plain files in which each committed row is seen exactly once.

Spark writes a batch into a private directory next to the sink's own (not below it:
DuckDB's `**` looks into hidden directories too). If the sink's directory is a mount point, no file
can be renamed into it from there, and the private directory is inside. Then one record, created
atomically, commits the batch; then the files are renamed into place, each in one step; then the
record is renamed from `pending` to done. A process that finds a record completes the publication.
Small files of held batches may be joined before they are published (`file_joins.py`, ADR 37).
A batch whose files do not hold the rows that Spark counted is not committed, and a file whose size
differs from the record is not published. Records of older batches are compacted into segments, each
with many batches (`record_segments.py`, ADR 22).

    <parent>/<name>/<job>-<sink>-<batch>-<part>.parquet       what readers see
    <parent>/.<name>.headgate/<job>/<sink>/<batch>.json       published
                                             <batch>.pending.json
                                             <batch>.held.json
                                             segments/…          older batches
                                             staging/<attempt>-<batch>-<id>/…
    <parent>/<name>/.headgate/<job>/…                         the same, in a mount point
"""

import fnmatch
import json
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict
from pathlib import PurePath
from threading import RLock
from typing import Any
from uuid import uuid4

from jobmanager.core.ids import AttemptNumber, JobId, VertexId
from jobmanager.core.snapshots import layout
from taskrunner import logs
from taskrunner.core.file_joins import JoinedFile, JoinedRecords, JoinGroup, after_join
from taskrunner.core.sink_records import (
    OutputFile,
    Record,
    RecordState,
    Recovery,
    final_name,
    final_prefix,
    recoveries,
)
from taskrunner.core.sink_segments import Batches, CompactionLimits, Segment, compacted
from taskrunner.core.staged_rows import (
    BatchCount,
    BatchIncomplete,
    OutputFileChanged,
    StagedFile,
    contradiction,
)
from taskrunner.sinks.output_files import LOCAL, OutputFiles
from taskrunner.sinks.private_directory import private_directory
from taskrunner.sinks.record_segments import RecordSegments

log = logs.get("sink")
_JOIN = "join"
"""In the record of a held batch that other batches are joined into: what happens to theirs."""
_RECORD = re.compile(r"(\d+)(?:\.(held|pending|withdrawn))?\.json")

Guard = Callable[[], AbstractContextManager[None]]
"""Keeps newer attempts out during a block, or raises `Superseded`."""


class SinkDirectory:
    """One sink's output in one directory. Threads may share it."""

    def __init__(
        self,
        directory: PurePath,
        job: JobId,
        sink: VertexId,
        attempt: AttemptNumber,
        guard: Guard,
        after_step: Callable[[str], None] = lambda step: None,
        compaction: CompactionLimits = CompactionLimits(),  # noqa: B008 (it is immutable)
        files: OutputFiles = LOCAL,
    ) -> None:
        self._files = files
        self._directory = directory
        self._private = private_directory(directory, files) / job.hex / sink
        self._job = job
        self._sink = sink
        self._attempt = attempt
        self._guard = guard
        self._after_step = after_step
        """Called after each step after which a crash may happen (tests use it)."""
        self._lock = RLock()
        self._segments = RecordSegments(
            self._private / "segments", directory, job, sink, after_step, files
        )
        self._compaction = compaction
        self._with_own_record: set[int] | None = None
        """Published batches with a record of their own, once they have been listed. Some may have
        none any more.
        """

    def state_of(self, batch: int) -> RecordState | None:
        """The state of a batch's record; None: there is no record yet."""
        return self._own_record_of(batch) or self._segments.state_of(batch)

    def stage(self, batch: int) -> PurePath:
        """A new path for a batch's files, hidden from readers; it does not exist yet."""
        self._files.make_directory(self._staging)
        self._files.make_directory(self._directory)
        return self._staging / f"{self._attempt}-{batch}-{uuid4().hex[:12]}"

    def commit(
        self,
        batch: int,
        staged: PurePath,
        count: BatchCount,
        files: Sequence[StagedFile],
        held: bool,
    ) -> None:
        """Commits `files`, written below `staged`, as the batch's output, and publishes them
        unless they are to be `held`. A batch without rows needs no record. Raises
        `BatchIncomplete` if the files do not hold the counted rows, and `Superseded` if a newer
        attempt has taken over.
        """
        if wrong := contradiction(count, files):
            raise self._incomplete(batch, staged, f"Spark counted {count.rows} rows, but {wrong}")
        if count.rows == 0:
            self.discard(staged)
            return
        filled = [one for one in files if not one.is_empty]
        self._sync(batch, staged, filled)
        self._after_step("staged")
        output = tuple(self._output(batch, staged, filled))
        record = Record(batch, count.rows, self._attempt, output)
        state = RecordState.HELD if held else RecordState.PENDING
        with self._lock, self._guard():
            if self.state_of(batch) is None:
                self._files.create(self._path(batch, state), json.dumps(asdict(record), indent=1))
                self._after_step("decided")
            if not held:
                self._publish(batch)
                self._compact(batch)

    def finish(self, batch: int) -> None:
        """Completes the publication that the record of a replayed batch describes."""
        with self._lock, self._guard():
            if self.state_of(batch) is RecordState.PENDING:
                self._publish(batch)
                self._compact(batch)

    def held(self, last: int) -> list[Record]:
        """The records of the held batches up to `last` that this attempt wrote."""
        with self._lock, self._guard():
            self._finish_joins(last)
            found = (self._read(one, RecordState.HELD) for one in self._held_up_to(last))
            return [one for one in found if one.attempt == self._attempt]

    def joined(self, group: JoinGroup, files: Sequence[JoinedFile]) -> None:
        """Makes joined files durable, and puts them in the place of the files of the group: all of
        it, or nothing. Raises `OutputFileChanged`, and `Superseded`.
        """
        self._files.sync_files((self._private / one.staged for one in files), inside=self._staging)
        for file in files:
            if (size := self._files.size(self._private / file.staged)) != file.bytes:
                raise OutputFileChanged(f"{file.bytes} bytes were joined, and now {_found(size)}")
        self._after_step("joined")
        self._replace_held(group.records, after_join(group, files, self._job, self._sink))

    def _replace_held(self, before: Sequence[Record], joined: JoinedRecords) -> None:
        """Replaces the records `before` of held batches.

        The new record of the last batch decides, and says what is to happen to the others. Until
        that is done nothing of it is published, and a version that does not know joins takes the
        record for a damaged one.
        """
        carrier = joined.carrier
        with self._lock, self._guard():
            held = self._held_up_to(carrier.batch)
            for record in before:
                if record.batch not in held:
                    raise OutputFileChanged(f"batch {record.batch} is not held any more")
                if self._read(record.batch, RecordState.HELD) != record:
                    raise OutputFileChanged(f"the record of batch {record.batch} has changed")
            rest = {"left": [asdict(one) for one in joined.left], "gone": joined.gone}
            document = {**asdict(carrier), _JOIN: rest}
            self._files.write(
                self._path(carrier.batch, RecordState.HELD), json.dumps(document, indent=1)
            )
            self._after_step("join decided")
            self._finish_join(carrier.batch)
            named = {
                self._staging_of(file) for one in (carrier, *joined.left) for file in one.files
            }
            replaced = {self._staging_of(file) for one in before for file in one.files}
            for directory in replaced - named:
                self.discard(directory)
                self._after_step("small files deleted")

    def show_up_to(self, batch: int) -> None:
        """Publishes the output that was held for a checkpoint at `batch`."""
        with self._lock, self._guard():
            self._finish_joins(batch)
            for one, state in sorted(self._records().items()):
                if one <= batch and state in (RecordState.HELD, RecordState.PENDING):
                    self._publish(one)
                    self._compact(one)

    def lost_batches(self) -> dict[int, str]:
        """Batches that are committed and cannot be published, with the reason: they have to be run
        again. Published files are not checked: users may have moved them.
        """
        lost = {}
        for batch, state in sorted(self._records().items()):
            if state in (RecordState.HELD, RecordState.PENDING):
                try:
                    self.check_sizes(self._read(batch, state))
                except OutputFileChanged as error:
                    lost[batch] = str(error)
        return lost

    def newest(self, rows: int) -> list[Record]:
        """The records of the newest published batches that have so many rows together, the newest
        first. Looks at batches with a record of their own only, which the newest batches have.
        """
        found: list[Record] = []
        published = (one for one, at in self._records().items() if at is RecordState.PUBLISHED)
        for batch in sorted(published, reverse=True):
            if sum(one.rows for one in found) >= rows:
                break
            # The record may be withdrawn meanwhile.
            with suppress(OutputFileChanged, FileNotFoundError):
                found.append(self._read(batch, RecordState.PUBLISHED))
        return found

    def last_bytes_per_row(self) -> float | None:
        """What a row took in the files of the newest batch that has a record of its own; None:
        there is no such batch, or its record is damaged.
        """
        records = self._records()
        if not records:
            return None
        newest = max(records)
        try:
            record = self._read(newest, records[newest])
        except OutputFileChanged:
            return None
        return sum(file.bytes for file in record.files) / record.rows

    def recover(self, last_kept: int, last_visible: int | None) -> None:
        """Brings the directory in line with the restored state, before an attempt starts."""
        with self._lock, self._guard():
            self._withdraw_segments(lambda one: one.after(last_kept), after=last_kept)
            self._finish_joins(last_kept)
            for batch, recovery in recoveries(self._records(), last_kept, last_visible).items():
                match recovery:
                    case Recovery.WITHDRAW:
                        self._withdraw(batch)
                    case Recovery.PUBLISH:
                        self._publish(batch)
                    case Recovery.KEEP:
                        pass
            self._delete_orphans()

    def withdraw_after(self, attempt: AttemptNumber) -> None:
        """Withdraws the output of later attempts."""
        with self._lock, self._guard():
            self._withdraw_segments(lambda one: one.of_attempts_after(attempt))
            for batch, state in sorted(self._records().items()):
                if self._read(batch, state).attempt > attempt:
                    self._withdraw(batch)
            self._delete_orphans()

    def abandon(self, batch: int, staged: PurePath) -> None:
        """Deletes the staged files after a failure, unless the batch was committed."""
        with self._lock:
            if self.state_of(batch) is None:
                self.discard(staged)

    def abandon_join(self, group: JoinGroup, staged: PurePath) -> None:
        """Deletes joined files after a failure, unless they are part of the output. What nobody
        knows for certain is left to the next attempt.
        """
        with self._lock, suppress(OutputFileChanged, OSError):
            carrier = self._read(group.records[-1].batch, RecordState.HELD)
            if staged not in map(self._staging_of, carrier.files):
                self.discard(staged)

    def discard(self, staged: PurePath) -> None:
        """Deletes staged files that are not needed."""
        self._files.discard(staged)

    @property
    def sink(self) -> VertexId:
        return self._sink

    @property
    def private(self) -> PurePath:
        """The directory inside which records name staged files."""
        return self._private

    @property
    def _staging(self) -> PurePath:
        return self._private / "staging"

    def _own_record_of(self, batch: int) -> RecordState | None:
        """The state of a batch's own record. Where a rename is a copy and a deletion, a crash may
        leave two records of a batch: then the earlier state, since the rename has to be repeated.
        """
        return next((s for s in RecordState if self._has(self._path(batch, s))), None)

    def _records(self) -> dict[int, RecordState]:
        """The batches that have a record of their own."""
        matches = [_RECORD.fullmatch(name) for name in self._files.names(self._private)]
        # sorted, so that of two records of a batch (see `_own_record_of`) the later state counts
        return {int(m[1]): RecordState(m[2] or RecordState.PUBLISHED) for m in matches if m}

    def _has(self, path: PurePath) -> bool:
        return self._files.size(path) is not None

    def _path(self, batch: int, state: RecordState) -> PurePath:
        infix = "" if state is RecordState.PUBLISHED else f".{state}"
        return self._private / f"{batch}{infix}.json"

    def _sync(self, batch: int, staged: PurePath, files: Sequence[StagedFile]) -> None:
        try:
            self._files.sync_files((staged / one.path for one in files), inside=self._staging)
        except FileNotFoundError as error:
            raise self._incomplete(batch, staged, f"{error.filename} is gone") from None

    def _output(
        self, batch: int, staged: PurePath, files: Sequence[StagedFile]
    ) -> list[OutputFile]:
        output = []
        for part, file in enumerate(sorted(files, key=lambda one: one.path)):
            path = staged / file.path
            if (size := self._files.size(path)) != file.bytes:
                name = self._files.shown(path)
                wrong = f"Spark wrote {file.bytes} bytes of {name}, and now {_found(size)}"
                raise self._incomplete(batch, staged, wrong)
            final = final_name(self._job, self._sink, batch, part, str(file.path))
            inside = path.relative_to(self._private).as_posix()
            output.append(OutputFile(inside, final, file.bytes))
        return output

    def _incomplete(self, batch: int, staged: PurePath, wrong: str) -> BatchIncomplete:
        return BatchIncomplete(
            f"sink {self._sink}, batch {batch}: {wrong} (looked for in "
            f"{self._files.shown(staged)}). Is the directory "
            "mounted on every worker? Nothing of the batch was published; the batch runs again "
            "after a restart"
        )

    def check_sizes(self, record: Record) -> None:
        """Checks that every file is staged or already in place, with the size in the record."""
        for file in record.files:
            staged, final = self._private / file.staged, self._directory / file.final
            size = self._files.size(staged)
            if size is None:
                size = self._files.size(final)
            if size != file.bytes:
                raise OutputFileChanged(
                    f"sink {self._sink}, batch {record.batch}: the record names {file.final} with "
                    f"{file.bytes} bytes, and {_found(size)} (looked for at "
                    f"{self._files.shown(staged)} and {self._files.shown(final)}). "
                    "The batch is not published: bring the file back (is the directory mounted?), "
                    "or start the job from a checkpoint before this batch"
                )

    def _publish(self, batch: int) -> None:
        is_held = self._own_record_of(batch) is RecordState.HELD
        record = self._read(batch, RecordState.HELD if is_held else RecordState.PENDING)
        self.check_sizes(record)
        if is_held:
            self._move(batch, RecordState.HELD, RecordState.PENDING)
        parents = set()
        for file in record.files:
            final = self._directory / file.final
            staged = self._private / file.staged
            self._files.make_directory(final.parent)
            if self._has(staged):
                self._files.publish(staged, final)
                self._after_step("renamed")
            parents.add(final.parent)
        for parent in parents:
            self._files.sync(parent)
        self._move(batch, RecordState.PENDING, RecordState.PUBLISHED)
        self._delete_staged(record)

    def _held_up_to(self, last: int) -> list[int]:
        found = self._records().items()
        return sorted(one for one, at in found if one <= last and at is RecordState.HELD)

    def _finish_joins(self, last: int) -> None:
        """Finishes what a process has decided and not done. A damaged record stays as it is."""
        for batch in self._held_up_to(last):
            with suppress(OutputFileChanged):
                self._finish_join(batch)

    def _finish_join(self, batch: int) -> None:
        path = self._path(batch, RecordState.HELD)
        try:
            document = self._document(batch, RecordState.HELD)
        except FileNotFoundError:
            return  # it went into the file of a later batch
        rest = document.pop(_JOIN, None)
        if rest is None:
            return
        for one in rest["left"]:
            self._files.write(self._path(one["batch"], RecordState.HELD), json.dumps(one, indent=1))
            self._after_step("record of a joined batch changed")
        for one in rest["gone"]:
            self._files.delete(self._path(one, RecordState.HELD))
            self._after_step("record of a joined batch deleted")
        self._files.sync(self._private)
        self._files.write(path, json.dumps(document, indent=1))
        self._after_step("join done")

    def _compact(self, published: int) -> None:
        """Compacts the oldest records into a segment when there are many. If that fails, the
        records stay, and the next batch tries again.
        """
        if self._with_own_record is None:
            found = self._records().items()
            self._with_own_record = {one for one, state in found if state is RecordState.PUBLISHED}
        self._with_own_record.add(published)
        if len(self._with_own_record) < self._compaction.kept + self._compaction.at_once:
            return
        oldest = sorted(self._with_own_record)[: self._compaction.at_once]
        try:
            self._compact_records(oldest)
        except OSError as error:
            log.warning("records_not_compacted", sink=self._sink, error=str(error))
        else:
            self._with_own_record.difference_update(oldest)

    def _compact_records(self, batches: Sequence[int]) -> None:
        records = []
        for batch in batches:
            # A damaged record stays as it is, and is withdrawn by the names of its files.
            with suppress(OutputFileChanged, FileNotFoundError):
                records.append(self._read(batch, RecordState.PUBLISHED))
        segment = compacted(self._job, self._sink, records)
        if not segment:
            return
        self._segments.add(segment)
        for batch in segment.batches:
            self._files.delete(self._path(batch, RecordState.PUBLISHED))
            self._after_step("record deleted")
        self._files.sync(self._private)

    def _withdraw_segments(self, doomed: Callable[[Segment], Segment], after: int = -1) -> None:
        """Withdraws the `doomed` part of the segments. A batch that has a record of its own too is
        decided by that record.
        """
        self._with_own_record = None
        if not (taken := self._segments.take_out(doomed, after)):
            return
        taken = taken.without(Batches.of(self._records()))
        parents = set()
        for name in taken.finals(self._job, self._sink):
            final = self._directory / name
            self._files.delete(final)
            self._after_step("unlinked")
            parents.add(final.parent)
        for parent in parents:
            self._files.sync(parent)
        self._segments.forget_withdrawn()

    def _withdraw(self, batch: int) -> None:
        while (state := self._own_record_of(batch)) not in (None, RecordState.WITHDRAWN):
            assert state is not None
            self._move(batch, state, RecordState.WITHDRAWN)
        finals, staged = self._places_of(batch)
        for final in finals:
            self._files.delete(final)
            self._after_step("unlinked")
            self._files.sync(final.parent)
        for one in staged:
            self.discard(one)
        self._files.delete(self._path(batch, RecordState.WITHDRAWN))
        self._files.sync(self._private)
        self._after_step("withdrawn")

    def _places_of(self, batch: int) -> tuple[list[PurePath], set[PurePath]]:
        """The files of a withdrawn batch, and its staging directories. If the record is damaged,
        they are found by their names.
        """
        try:
            record = self._read(batch, RecordState.WITHDRAWN)
        except OutputFileChanged:
            prefix = final_prefix(self._job, self._sink, batch)
            below = self._files.files_below(self._directory)
            named = [self._directory / one for one in below if one.name.startswith(prefix)]
            staged = fnmatch.filter(self._files.names(self._staging), f"*-{batch}-*")
            return named, {self._staging / one for one in staged}
        finals = [self._directory / file.final for file in record.files]
        return finals, {self._staging_of(file) for file in record.files}

    def _move(self, batch: int, before: RecordState, after: RecordState) -> None:
        self._files.rename(self._path(batch, before), self._path(batch, after))
        self._files.sync(self._private)
        self._after_step(after)

    def _read(self, batch: int, state: RecordState) -> Record:
        document = self._document(batch, state)
        document.pop(_JOIN, None)
        try:
            files = tuple(OutputFile(**file) for file in document.pop("files"))
            return Record(files=files, **document)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise self._damaged(batch, state, error) from None

    def _document(self, batch: int, state: RecordState) -> dict[str, Any]:
        """What the record of a batch says. Raises `FileNotFoundError` and `OutputFileChanged`."""
        try:
            document = json.loads(self._files.read(self._path(batch, state)))
        except ValueError as error:
            raise self._damaged(batch, state, error) from None
        if not isinstance(document, dict):
            raise self._damaged(batch, state, TypeError("it is no object"))
        return document

    def _damaged(self, batch: int, state: RecordState, error: Exception) -> OutputFileChanged:
        path = self._files.shown(self._path(batch, state))
        return OutputFileChanged(
            f"sink {self._sink}, batch {batch}: the record {path} is "
            f"damaged ({error}). Start the job from a checkpoint before this batch"
        )

    def _delete_staged(self, record: Record) -> None:
        for directory in {self._staging_of(file) for file in record.files}:
            self.discard(directory)

    def _delete_orphans(self) -> None:
        """Deletes staged files that no record names, since their batch was never committed; and
        records that a crash left half written.
        """
        for directory in (self._private, self._private / "segments"):
            unfinished = layout.temporary_name("*", "*")
            for name in fnmatch.filter(self._files.names(directory), unfinished):
                self._files.delete(directory / name)
        staged = self._files.names(self._staging)
        if not staged:
            return
        named = {
            self._staging_of(file)
            for batch, state in self._records().items()
            if state in (RecordState.HELD, RecordState.PENDING)
            for file in self._read(batch, state).files
        }
        for name in staged:
            if self._staging / name not in named:
                self.discard(self._staging / name)

    def _staging_of(self, file: OutputFile) -> PurePath:
        return self._staging / PurePath(file.staged).parts[1]


def _found(size: int | None) -> str:
    return "the file is not there" if size is None else f"the file has {size} bytes"
