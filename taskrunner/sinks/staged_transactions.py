"""A sink whose batches are staged in the job's directory and published by transactions.

Spark's executors write the rows of a batch as Parquet files; creating the batch's record decides
it; then one transaction writes the rows and the marker together (`core/transactional_output.py`).
The transactions are fenced by the topic itself, and by nothing else: a new attempt takes over
before it reads the marker, and from then on no older attempt can publish anything.

    jobs/<job>/transactions/<sink>/<batch>.json                 decided, not known to be published
                                   published                    the last marker that was written
                                   staging/<attempt>-<batch>-<id>/…
"""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import RLock
from typing import Protocol
from uuid import uuid4

from jobmanager.core.graph.connectors.kafka import Rewind
from jobmanager.core.ids import AttemptNumber, VertexId
from jobmanager.core.snapshots.layout import temporary_name
from taskrunner import logs
from taskrunner.core import transactional_output
from taskrunner.core.staged_rows import (
    BatchCount,
    BatchIncomplete,
    OutputFileChanged,
    StagedFile,
    contradiction,
)
from taskrunner.sinks.decided_batches import NOTE, DecidedBatches
from taskrunner.sinks.directory import Guard
from taskrunner.snapshots import durable

log = logs.get("sink")


class TransactionalTopic(Protocol):
    """Where the transactions go. It has one writer: the last that took over."""

    def take_over(self) -> int | None:
        """Fences all older writers, ends what they left open, and returns the marker; None: there
        is none. After this no older writer can publish.
        """
        ...

    def publish(self, files: Sequence[Path], marker: int) -> None:
        """Writes the rows of Parquet files and the marker in one transaction."""
        ...

    def close(self) -> None: ...


class StagedTransactions:
    """One sink's batches. Threads may share it."""

    def __init__(
        self,
        directory: Path,
        sink: VertexId,
        attempt: AttemptNumber,
        topic: TransactionalTopic,
        guard: Guard,
        rewind: Rewind = Rewind.REFUSE,
        after_step: Callable[[str], None] = lambda step: None,
    ) -> None:
        self._directory = directory
        self._decided = DecidedBatches(directory, sink)
        self._sink = sink
        self._attempt = attempt
        self._topic = topic
        self._guard = guard
        self._rewind = rewind
        self._after_step = after_step
        """Called after each step after which a crash may happen (tests use it)."""
        self._lock = RLock()
        self._published: int | None = None
        """The marker. None: this attempt has not taken over, or does not know how its last
        transaction ended.
        """
        self._newest = -1
        """The newest batch that this attempt was given, with or without rows. A batch that an older
        attempt had only begun does not count: its rows are not known.
        """

    def is_decided(self, batch: int) -> bool:
        """Whether the rows of a batch are staged for good, or published."""
        return batch < (self._published or 0) or self._decided.path(batch).exists()

    def stage(self, batch: int) -> Path:
        """A new path for a batch's files; it does not exist yet."""
        durable.make_directory(self._decided.staging)
        return self._decided.staging / f"{self._attempt}-{batch}-{uuid4().hex[:12]}"

    def decide(
        self, batch: int, staged: Path, count: BatchCount, files: Sequence[StagedFile]
    ) -> None:
        """Decides that `files`, written below `staged`, are the batch's rows. A batch without rows
        needs no record. Raises `BatchIncomplete` or `Superseded`.
        """
        self._newest = max(self._newest, batch)
        if wrong := contradiction(count, files):
            raise BatchIncomplete(
                f"sink {self._sink}, batch {batch}: Spark counted {count.rows} rows, but {wrong} "
                f"(looked for in {staged}). Is the directory mounted on every worker? Nothing of "
                "the batch was published; the batch runs again after a restart"
            )
        if count.rows == 0:
            shutil.rmtree(staged, ignore_errors=True)
            return
        filled = [one for one in files if not one.is_empty]
        durable.sync_all((staged / one.path for one in filled), inside=self._decided.staging)
        self._after_step("staged")
        named = [(f"{staged.name}/{one.path}", one.bytes) for one in filled]
        document = {
            "batch": batch,
            "rows": count.rows,
            "attempt": self._attempt,
            "files": named,
        }
        with self._lock, self._guard():
            durable.create(self._decided.path(batch), json.dumps(document, indent=1))
        self._after_step("decided")

    def abandon(self, batch: int, staged: Path) -> None:
        """Deletes the staged files after a failure, unless the batch was decided."""
        with self._lock:
            if not self._decided.path(batch).exists():
                shutil.rmtree(staged, ignore_errors=True)

    def show_up_to(self, batch: int) -> None:
        """Publishes every decided batch up to `batch`, in order. May be repeated. Raises
        `Superseded`, and whatever the topic raises.
        """
        with self._lock:
            try:
                self._publish_up_to(batch)
            except BaseException:
                # The transaction may have been committed: ask before the next one.
                self._published = None
                self._topic.close()
                self._check_attempt()
                raise

    def recover(self, last_kept: int, last_visible: int | None) -> None:
        """Takes over from older attempts, and brings records in line with the restored state.
        Raises `RewindRefused` and `MarkerLost`.
        """
        with self._lock:
            start = transactional_output.start(
                self._sink, self._take_over(), self._decided.noted(), last_kept, self._rewind
            )
            if start.must_reset:
                log.warning("published_again", sink=self._sink, after_batch=last_kept)
                self._note(start.published)  # first: a note is never ahead of the marker
                self._after_step("note_reset")
                self._topic.publish((), start.published)
                self._after_step("marker_reset")
                self._published = start.published
            for batch in transactional_output.leftovers(
                self._decided.numbers(), start.published, last_kept
            ):
                self._forget(batch)
            self._delete_orphans()
            if last_visible is not None:
                self.show_up_to(min(last_visible, last_kept))

    def close(self) -> None:
        """Ends the connections to the topic."""
        with self._lock:
            self._published = None
            self._topic.close()

    def _publish_up_to(self, batch: int) -> None:
        if self._published is None:
            self._published = self._take_over() or 0
        for one in transactional_output.due(self._decided.numbers(), self._published, batch):
            self._transact(self._decided.files_of(one), one + 1)
            self._forget(one)
        last = min(batch, self._newest)
        if self._published <= last:  # the newest batches had no rows
            self._transact((), last + 1)

    def _check_attempt(self) -> None:
        """Raises `Superseded` if that is why a transaction failed: Kafka's client, when fenced, may
        only say that nobody answered in time.
        """
        with self._guard():
            pass

    def _transact(self, files: Sequence[Path], marker: int) -> None:
        self._topic.publish(files, marker)
        self._after_step("published")
        self._published = marker
        self._note(marker)
        self._after_step("noted")

    def _take_over(self) -> int | None:
        # Inside of the fence: an attempt that was replaced must not take over again.
        with self._guard():
            self._published = None
            marker = self._topic.take_over()
        self._after_step("taken_over")
        self._published = marker or 0
        return marker

    def _forget(self, batch: int) -> None:
        """Deletes the record of a batch that is published or not wanted, then its rows."""
        try:
            files = self._decided.read(batch).files
            staged = {self._decided.staging / Path(name).parts[0] for name, _ in files}
        except OutputFileChanged:
            staged = set(self._decided.staging.glob(f"*-{batch}-*"))
        self._decided.path(batch).unlink(missing_ok=True)
        durable.sync(self._directory)
        self._after_step("forgotten")
        for one in staged:
            shutil.rmtree(one, ignore_errors=True)

    def _delete_orphans(self) -> None:
        """Deletes staged files that no record names, and records that a crash left half written."""
        for unfinished in self._directory.glob(temporary_name("*", "*")):
            unfinished.unlink()
        if not self._decided.staging.exists():
            return
        named = {
            Path(name).parts[0]
            for one in self._decided.numbers()
            for name, _ in self._decided.read(one).files
        }
        for staged in self._decided.staging.iterdir():
            if staged.name not in named:
                shutil.rmtree(staged, ignore_errors=True)

    def _note(self, marker: int) -> None:
        durable.write(self._directory / NOTE, f"{marker}\n")
