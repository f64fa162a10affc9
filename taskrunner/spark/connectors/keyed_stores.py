"""What the sinks to stores of keys have in common: they take an output over, and go back in it."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from pyspark.sql import DataFrame

from jobmanager.core.graph.connectors.keyed_sink import KeyedSink
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.snapshots.manifest import Ancestor
from taskrunner.core.invalid_vertex import VertexRefused
from taskrunner.sinks.optional_packages import PackageMissing, imported
from taskrunner.spark.connectors.batch_sink import BatchSink
from taskrunner.spark.connectors.keyed_rows import check_key
from taskrunner.spark.connectors.writing import WriteContext


class StoreOutput(Protocol):
    """The output of one sink in a store, as the driver sees it."""

    def take_over(self) -> None: ...
    def go_back(self, last_kept: int) -> None: ...
    def has(self, batch: int) -> bool: ...


class KeyedStoreSink(BatchSink):
    """The base of these sinks."""

    def __init__(self, sink: Sink, context: WriteContext, output: StoreOutput) -> None:
        self._sink = sink
        self._context = context
        self._store_output = output

    def continue_output(self, lineage: tuple[Ancestor, ...]) -> None:
        """Keeps the jobs that this job continues from writing. What they wrote after the restore
        point stays, until this job writes the same keys.
        """
        for one in lineage:
            if self._sink.id in one.batches:
                with self._context.guard_of(one.job)():
                    pass  # from now on no attempt of that job begins a batch
        self._store_output.take_over()

    def recover(self, last_kept: int, last_visible: int | None) -> None:
        self._store_output.take_over()
        self._store_output.go_back(last_kept)

    def has_batch(self, batch: int) -> bool:
        return self._store_output.has(batch)


def check_rows(sink: Sink, keyed: KeyedSink, rows: DataFrame) -> None:
    check_key(rows, keyed.row_key)


def need_package(module: str, package: str) -> None:
    """Raises `VertexRefused` if the client of the store is not installed."""
    try:
        imported(module, package)
    except PackageMissing as error:
        raise VertexRefused(str(error)) from error


def certificates_in(ca: str | None, context: WriteContext) -> str | None:
    """The certificates of the authorities to trust; None: those of the machine."""
    if ca is None:
        return None
    try:
        return context.resolve(ca).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise VertexRefused(f"the certificates cannot be read: {error}", "ca") from error


def some_at_once(
    pieces: Iterator[Sequence[dict[str, Any]]], count: int
) -> Iterator[Sequence[dict[str, Any]]]:
    """The rows of a task, so many at once."""
    for piece in pieces:
        for first in range(0, len(piece), count):
            yield piece[first : first + count]
