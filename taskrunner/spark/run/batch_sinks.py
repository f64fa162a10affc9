"""What every batch goes through on its way to the sinks of a region."""

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame

from taskrunner.spark.connectors.batch_sink import BatchWriter


class FencedBatches:
    """Any sink: an attempt that was replaced begins no batch, with or without rows. The sink itself
    publishes inside of the fence if it can; where that is users' code, this is all there is.
    """

    def __init__(self, sink: BatchWriter, check: Callable[[], None]) -> None:
        self._sink = sink
        self._check = check
        """Raises if the attempt may not begin a batch."""

    @property
    def jobs_of_batch(self) -> range:
        return self._sink.jobs_of_batch

    def write(self, rows: DataFrame, batch: int) -> int:
        self._check()
        return self._sink.write(rows, batch)


class Shared:
    """Several sinks that share the same rows, which are computed once.

    In a replayed batch, a sink that already has its rows does not write them again.
    """

    def __init__(
        self, sinks: Sequence[tuple[Callable[[DataFrame], DataFrame], BatchWriter]]
    ) -> None:
        self._sinks = sinks

    @property
    def jobs_of_batch(self) -> range:
        return range(0)

    def write(self, rows: DataFrame, batch: int) -> int:
        kept = rows.persist()
        try:
            return sum(sink.write(rows_for(kept), batch) for rows_for, sink in self._sinks)
        finally:
            kept.unpersist()
