"""`blackhole`: rows are computed, counted and dropped."""

from pyspark.sql import DataFrame

from jobmanager.core.graph.connectors.blackhole import BlackholeSink
from jobmanager.core.graph.sinks import Sink
from taskrunner.spark.connectors.batch_sink import BatchSink
from taskrunner.spark.connectors.row_counts import discard
from taskrunner.spark.connectors.writing import SinkWriter, WriteContext


class Discarded(BatchSink):
    def write(self, rows: DataFrame, batch: int) -> int:
        return discard(rows)


def _open(sink: Sink, blackhole: BlackholeSink, context: WriteContext) -> BatchSink:
    return Discarded()


READERS = ()
WRITERS = (SinkWriter(BlackholeSink, _open),)
