"""Sinks to stores that keep the row with the greater version; `VersionedOutput` has the rules."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame

from jobmanager.core.graph.connectors.keyed_sink import RowKey
from jobmanager.core.graph.sinks import Sink
from taskrunner.sinks.versioned_output import OpenBatch, VersionedOutput, VersionedStore
from taskrunner.spark.connectors.keyed_rows import (
    PartitionWriter,
    one_for_each_key,
    write_in_tasks,
)
from taskrunner.spark.connectors.keyed_stores import KeyedStoreSink, some_at_once
from taskrunner.spark.connectors.row_counts import discard
from taskrunner.spark.connectors.writing import WriteContext

RowForm = Callable[[dict[str, Any]], Any]
"""Makes what the store writes of a row of a task. It is pickled."""


class VersionedKeys(KeyedStoreSink):
    """The base of these sinks."""

    def __init__(
        self, sink: Sink, key: RowKey, store: VersionedStore, at_once: int, context: WriteContext
    ) -> None:
        self._key = key
        self._at_once = at_once
        self._output = VersionedOutput(store, context.job, sink.id, context.attempt, context.guard)
        super().__init__(sink, context, self._output)

    def written(self, rows: DataFrame) -> tuple[list[Column], RowForm]:
        """The columns that tasks need, and what a task makes of them."""
        raise NotImplementedError

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
            for rows in some_at_once(pieces, at_once):
                opened.write(connection, [form(row) for row in rows])

    return write
