"""`spark`: any data source that Spark finds on its class path."""

from pyspark.sql import DataFrame

from jobmanager.core.graph.connectors.spark_formats import SparkFormatSink, SparkFormatSource
from jobmanager.core.graph.output_mode import OutputMode
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.graph.sources import Source
from taskrunner.spark.connectors.batch_sink import BatchSink
from taskrunner.spark.connectors.reading import ReadContext, SourceReader
from taskrunner.spark.connectors.row_counts import counted_before
from taskrunner.spark.connectors.writing import SinkWriter, WriteContext


class SparkFormatWriter(BatchSink):
    """Gives each batch to the data source; a repeated batch is given to it again."""

    def __init__(self, sink: Sink, named: SparkFormatSink, context: WriteContext) -> None:
        self._sink = sink
        self._format = named.format

    def write(self, rows: DataFrame, batch: int) -> int:
        is_whole = self._sink.mode is OutputMode.COMPLETE
        with counted_before(rows) as (kept, count):
            writer = kept.write.format(self._format).mode("overwrite" if is_whole else "append")
            writer.options(**self._sink.options).save()
        return count


def _read(source: Source, named: SparkFormatSource, context: ReadContext) -> DataFrame:
    return context.load(named.format, source.schema, dict(source.options))


READERS = (SourceReader(SparkFormatSource, _read),)
WRITERS = (SinkWriter(SparkFormatSink, SparkFormatWriter),)
