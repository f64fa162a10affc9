"""A table (Delta, Iceberg) to which each batch of a sink is appended exactly once.

Executors write the Parquet files of a batch into a hidden directory inside the table's directory.
The driver compares them with the rows that Spark counted, renames their directory to its final
name, and commits them to the table in one commit that also names job, sink and batch. Readers
know files only from the table's own log, so no other record is needed: the table tells whether a
replayed batch is there already, and which commits a restore has to roll back.

    <table>/_headgate/<job>/<sink>/<attempt>-<batch>-<id>/part-….parquet    staged
    <table>/<data>/<job>-<sink>-<batch>-<id>/part-….parquet                 committed
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Protocol
from uuid import uuid4

from jobmanager.core.ids import AttemptNumber, JobId, VertexId
from taskrunner import logs
from taskrunner.core.staged_rows import BatchCount, BatchIncomplete, StagedFile, contradiction
from taskrunner.core.table_history import WrittenBatch
from taskrunner.sinks.directory import Guard
from taskrunner.snapshots import durable

_HIDDEN = "_headgate"
"""Delta's and Spark's own rule: names with an underscore are no data."""
log = logs.get("table")


class TableNotUsable(Exception):
    """A table that is not there, or has features that plain Parquet files do not have."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file that is to become part of a table."""

    path: Path
    bytes: int
    rows: int


class CommittedTable(Protocol):
    """A table with a log of commits."""

    @property
    def name(self) -> str:
        """The table in words, for messages."""
        ...

    @property
    def data(self) -> Path:
        """The directory for the files of rows."""
        ...

    def last_batch(self, job: JobId, sink: VertexId) -> int | None:
        """The last batch of a sink that is in the table; None: there is none."""
        ...

    def append(
        self, batch: WrittenBatch, attempt: AttemptNumber, root: Path, files: Sequence[DataFile]
    ) -> None:
        """Commits the rows of a batch. `root` is the directory that Spark wrote `files` into, with
        directories for partitions below it.
        """
        ...

    def roll_back(self, job: JobId, sink: VertexId, kept: Mapping[JobId, int]) -> Sequence[int]:
        """Takes the batches after the `kept` ones of each job out of the table, in one commit that
        says that `kept[job]` is the sink's last batch. Returns these batches. Raises
        `OutputLost`.
        """
        ...


class TableOutput:
    """One sink's output in one table. Threads may share it."""

    def __init__(
        self,
        table: CommittedTable,
        job: JobId,
        sink: VertexId,
        attempt: AttemptNumber,
        guard: Guard,
        after_step: Callable[[str], None] = lambda step: None,
    ) -> None:
        self._table = table
        self._job = job
        self._sink = sink
        self._attempt = attempt
        self._guard = guard
        self._after_step = after_step
        """Called after each step after which a crash may happen (tests use it)."""
        self._lock = RLock()
        self._staging = table.data / _HIDDEN / job.hex / sink

    def has(self, batch: int) -> bool:
        """Whether the table has the batch."""
        last = self._table.last_batch(self._job, self._sink)
        return last is not None and batch <= last

    def stage(self, batch: int) -> Path:
        """A new path for a batch's files, hidden from readers; it does not exist yet."""
        durable.make_directory(self._staging)
        return self._staging / f"{self._attempt}-{batch}-{uuid4().hex[:12]}"

    def commit(
        self, batch: int, staged: Path, count: BatchCount, files: Sequence[StagedFile]
    ) -> None:
        """Appends `files`, written below `staged`, to the table, unless the table has the batch. A
        batch without rows needs no commit. Raises `BatchIncomplete` if the files do not hold the
        counted rows, and `Superseded` if a newer attempt has taken over.
        """
        if wrong := contradiction(count, files):
            raise self._incomplete(batch, staged, f"Spark counted {count.rows} rows, but {wrong}")
        filled = [one for one in files if not one.is_empty]
        if count.rows == 0:
            self.discard(staged)
            return
        try:
            durable.sync_all((staged / one.path for one in filled), inside=self._staging)
        except FileNotFoundError as error:
            raise self._incomplete(batch, staged, f"{error.filename} is gone") from None
        self._after_step("staged")
        with self._lock, self._guard():
            if self.has(batch):
                self.discard(staged)
                return
            written = WrittenBatch(self._job, self._sink, batch)
            root = self._table.data / f"{written.prefix}{uuid4().hex[:12]}"
            _clear(staged, filled)
            staged.rename(root)
            durable.sync(root.parent)
            self._after_step("moved")
            found = [DataFile(root / one.path, one.bytes, one.rows or 0) for one in filled]
            self._table.append(written, self._attempt, root, found)
            self._after_step("committed")

    def recover(self, last_kept: int) -> None:
        """Brings the table in line with the restored state, before an attempt starts. Raises
        `OutputLost`.
        """
        with self._lock, self._guard():
            last = self._table.last_batch(self._job, self._sink)
            if last is not None and last > last_kept:
                self._roll_back({self._job: last_kept})
            self.discard(self._staging)

    def continue_after(self, kept: Mapping[JobId, int]) -> None:
        """Takes out of the table what the jobs that this job was started from wrote after the
        restore point. `kept` maps each of them to its last batch that stays. Raises
        `OutputLost`.
        """
        with self._lock, self._guard():
            self._roll_back({**kept, self._job: -1})

    def discard(self, staged: Path) -> None:
        """Deletes staged files that are not needed."""
        shutil.rmtree(staged, ignore_errors=True)

    def _roll_back(self, kept: Mapping[JobId, int]) -> None:
        if batches := self._table.roll_back(self._job, self._sink, kept):
            log.info(
                "table_rolled_back",
                sink=self._sink,
                table=self._table.name,
                first_batch=batches[-1],
                last_batch=batches[0],
            )
            self._after_step("rolled back")

    def _incomplete(self, batch: int, staged: Path, wrong: str) -> BatchIncomplete:
        return BatchIncomplete(
            f"sink {self._sink}, batch {batch}: {wrong} (looked for in {staged}). Is the directory "
            f"of {self._table.name} mounted on every worker? Nothing of the batch was committed; "
            "the batch runs again after a restart"
        )


def _clear(staged: Path, files: Sequence[StagedFile]) -> None:
    """Deletes all that is not data: Hadoop's checksums and marks, and files without rows."""
    wanted = {staged / one.path for one in files}
    for path in [*staged.rglob("*")]:
        if path.is_file() and path not in wanted:
            path.unlink()
