"""Sinks to stores that keep the row with the greater version; `VersionedOutput` has the rules."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame

from jobmanager.core.graph.connectors.keyed_sink import RowKey
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.snapshots.manifest import Ancestor
from taskrunner.sinks.versioned_output import OpenBatch, VersionedOutput, VersionedStore
from taskrunner.spark.connectors.batch_sink import BatchSink
from taskrunner.spark.connectors.keyed_rows import (
    PartitionWriter,
    one_for_each_key,
    write_in_tasks,
)
from taskrunner.spark.connectors.row_counts import discard
from taskrunner.spark.connectors.writing import WriteContext

RowForm = Callable[[dict[str, Any]], Any]
"""Makes what the store writes of a row of a task. It is pickled."""


class VersionedKeys(BatchSink):
    """The base of these sinks."""

    def __init__(
        self, sink: Sink, key: RowKey, store: VersionedStore, at_once: int, context: WriteContext
    ) -> None:
        self._sink = sink
        self._key = key
        self._at_once = at_once
        self._context = context
        self._output = VersionedOutput(store, context.job, sink.id, context.attempt, context.guard)

    def written(self, rows: DataFrame) -> tuple[list[Column], RowForm]:
        """The columns that tasks need, and what a task makes of them."""
        raise NotImplementedError

    def continue_output(self, lineage: tuple[Ancestor, ...]) -> None:
        """Keeps the jobs that this job continues from writing. What they wrote after the restore
        point stays, until this job writes the same keys.
        """
        for one in lineage:
            if self._sink.id in one.batches:
                with self._context.guard_of(one.job)():
                    pass  # from now on no attempt of that job begins a batch
        self._output.take_over()

    def recover(self, last_kept: int, last_visible: int | None) -> None:
        self._output.take_over()
        self._output.go_back(last_kept)

    def has_batch(self, batch: int) -> bool:
        return self._output.has(batch)

    def write(self, rows: DataFrame, batch: int) -> int:
        with self._output.batch(batch) as opened:
            if opened is None:
                return discard(rows)
            columns, form = self.written(rows)
            last = one_for_each_key(rows, self._key, columns)
            write = _writer(opened, form, self._at_once)
            return write_in_tasks(last, self._key, write, f"sink {self._sink.id}, batch {batch}")


def _writer(opened: OpenBatch, form: RowForm, at_once: int) -> PartitionWriter:
    def write(pieces: Iterator[Sequence[dict[str, Any]]]) -> None:
        with opened.store.connected() as connection:
            for piece in pieces:
                for first in range(0, len(piece), at_once):
                    rows = piece[first : first + at_once]
                    opened.write(connection, [form(row) for row in rows])

    return write
