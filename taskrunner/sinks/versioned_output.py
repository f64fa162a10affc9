"""An output whose store keeps the row with the greater version: the driver's side.

`taskrunner.core.writer_record` has the rules. Tasks look at the record before each request, so an
attempt that was replaced soon stops; what is under way then loses by its version.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import uuid4

from jobmanager.core.ids import AttemptNumber, JobId, VertexId
from taskrunner import logs
from taskrunner.core import writer_record
from taskrunner.core.store_failures import (
    FenceLost,
    OutputTaken,
    StoreRefused,
    WriteOvertaken,
)
from taskrunner.core.writer_record import (
    AlreadyWritten,
    BatchOver,
    RecordLost,
    Refusal,
    WriterRecord,
    WriterReplaced,
)
from taskrunner.sinks.directory import Guard
from taskrunner.snapshots.fence import Superseded

log = logs.get("versioned_output")
_TRIES = 20
_PAUSE_SECONDS = 0.05

Decide = Callable[[WriterRecord | None], WriterRecord | AlreadyWritten | Refusal]


@dataclass(frozen=True, slots=True)
class FoundRecord:
    record: WriterRecord
    revision: tuple[int, ...]
    """What the store compares when the record is replaced."""


class StoreConnection(Protocol):
    """A connection to the store, for one thread. Every method raises `StoreFailure`."""

    def read_record(self) -> FoundRecord | None: ...

    def replace_record(self, before: FoundRecord | None, record: WriterRecord) -> bool:
        """Whether the record was still `before` (None: absent), and is now `record`."""
        ...

    def write(self, rows: Sequence[Any], version: int) -> None:
        """Writes rows under their keys, unless the store has greater versions of them."""
        ...


class VersionedStore(Protocol):
    """The place of one output. It can be pickled: tasks get it."""

    @property
    def name(self) -> str:
        """What messages call the output: `index orders of Elasticsearch at …`."""
        ...

    @property
    def record_name(self) -> str:
        """What messages call the record."""
        ...

    def connected(self) -> AbstractContextManager[StoreConnection]: ...


@dataclass(frozen=True, slots=True)
class OpenBatch:
    """One batch of one attempt, as tasks write it."""

    store: VersionedStore
    token: str
    batch: int
    version: int

    def write(self, connection: StoreConnection, rows: Sequence[Any]) -> None:
        """Writes some rows. Raises `WriteOvertaken` and `FenceLost`, or what the store refuses."""
        found = connection.read_record()
        record = found.record if found is not None else None
        refused = writer_record.refusal(record, self.token, self.version)
        if isinstance(refused, WriterReplaced):
            raise WriteOvertaken(_taken(self.store, refused))
        if refused is not None:
            raise _failure(self.store, refused, self.batch)
        connection.write(rows, self.version)


class VersionedOutput:
    """The output of one sink, as the driver sees it. One thread uses it."""

    def __init__(
        self,
        store: VersionedStore,
        job: JobId,
        sink: VertexId,
        attempt: AttemptNumber,
        guard: Guard,
        clock: Callable[[], float] = time.time,
        after_step: Callable[[str], None] = lambda step: None,
    ) -> None:
        self._store = store
        self._job = job
        self._sink = sink
        self._attempt = attempt
        self._guard = guard
        self._clock = clock
        self._after_step = after_step
        """Called after each step after which a crash may happen (tests use it)."""
        self._token = uuid4().hex

    def take_over(self) -> None:
        """Keeps everybody else from opening a batch, from now on. Raises `Superseded`."""
        job, token = self._job.hex, self._token

        def decide(now: WriterRecord | None) -> WriterRecord | Refusal:
            if now is not None and now.job != job:
                log.info("output_taken_over", output=self._store.name, from_job=now.job)
            return writer_record.take_over(now, job, self._sink, self._attempt, token)

        with self._store.connected() as connection:
            self._changed(connection, decide)

    def go_back(self, last_kept: int) -> None:
        """Lets the batches after `last_kept` be written again. Their rows stay until then."""
        with self._store.connected() as connection:
            self._changed(
                connection, lambda now: writer_record.go_back(now, self._token, last_kept)
            )

    def has(self, batch: int) -> bool:
        """Whether the batch was written before."""
        with self._store.connected() as connection:
            found = connection.read_record()
        return found is not None and found.record.done is not None and found.record.done >= batch

    @contextmanager
    def batch(self, batch: int) -> Iterator[OpenBatch | None]:
        """Opens a batch for tasks (None: it was written before), and closes the batch after a block
        that has written it. Raises `Superseded`.
        """
        with self._store.connected() as connection:
            opened = self._changed(
                connection,
                lambda now: writer_record.begin(now, self._token, batch, self._microseconds()),
                batch,
            )
            if isinstance(opened, AlreadyWritten):
                yield None
                return
            version = opened.version
            self._after_step("begun")
            try:
                yield OpenBatch(self._store, self._token, batch, version)
            except WriteOvertaken:
                self._check(connection)  # says who has taken over, if somebody has
                raise
            self._after_step("written")
            self._changed(
                connection,
                lambda now: writer_record.end(now, self._token, batch, version),
                batch,
            )
        self._after_step("ended")

    def _check(self, connection: StoreConnection) -> None:
        self._changed(connection, lambda now: writer_record.go_back(now, self._token, 2**63))

    def _changed(
        self, connection: StoreConnection, decide: Decide, batch: int = -1
    ) -> WriterRecord | AlreadyWritten:
        """Replaces the record by what is decided. Others may replace the record meanwhile."""
        with self._guard():
            for _ in range(_TRIES):
                found = connection.read_record()
                decided = decide(found.record if found is not None else None)
                match decided:
                    case AlreadyWritten():
                        return decided
                    case WriterReplaced():
                        raise self._replaced(decided)
                    case RecordLost() | BatchOver():
                        raise _failure(self._store, decided, batch)
                    case WriterRecord():
                        if found is not None and found.record == decided:
                            return decided
                        if connection.replace_record(found, decided):
                            return decided
                time.sleep(_PAUSE_SECONDS)
        raise StoreRefused(
            f"{self._store.record_name} is replaced again and again: do several jobs write to "
            f"{self._store.name}? Give each job its own"
        )

    def _replaced(self, by: WriterReplaced) -> Superseded | OutputTaken:
        message = _taken(self._store, by)
        if by.job == self._job.hex:
            return Superseded(message)
        return OutputTaken(f"{message}: give each job an output of its own")

    def _microseconds(self) -> int:
        return int(self._clock() * 1_000_000)


def _taken(store: VersionedStore, by: WriterReplaced) -> str:
    return f"attempt {by.attempt} of job {by.job} has taken over the {store.name}"


def _failure(
    store: VersionedStore, why: RecordLost | BatchOver, batch: int
) -> FenceLost | WriteOvertaken:
    if isinstance(why, BatchOver):
        return WriteOvertaken(
            f"{store.name}: batch {batch} is over, and rows of the batch came later; they were not "
            "written"
        )
    return FenceLost(
        f"{store.record_name} is lost: was it deleted, or the server restored from an older copy? "
        "What the server lost of the output is not written again by itself: start the job from a "
        "savepoint that is older than the loss"
    )
