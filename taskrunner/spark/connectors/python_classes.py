"""`python`: classes of Spark's Python data source API."""

from pyspark.sql import DataFrame

from jobmanager.core.graph.connectors.python_classes import PythonSink, PythonSource
from jobmanager.core.graph.output_mode import OutputMode
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.graph.sources import Source
from taskrunner.spark.connectors import python_data_sources
from taskrunner.spark.connectors.batch_sink import BatchSink
from taskrunner.spark.connectors.reading import ReadContext, SourceReader
from taskrunner.spark.connectors.row_counts import counting
from taskrunner.spark.connectors.writing import SinkWriter, WriteContext


class PythonWriter(BatchSink):
    """The class has to cope with repeated batches.

    Its options have job, attempt, region and batch, so that it can recognise a repetition, and an
    attempt that was replaced.
    """

    def __init__(self, sink: Sink, python: PythonSink, context: WriteContext) -> None:
        self._sink = sink
        self._options = {
            **sink.options,
            "headgate.job": context.job.hex,
            "headgate.attempt": str(context.attempt),
            "headgate.region": str(sink.id),
        }
        self._format = python_data_sources.register(
            context.spark, sink.id, python.function, "writer"
        )

    def write(self, rows: DataFrame, batch: int) -> int:
        observed, count_of = counting(rows)
        is_whole = self._sink.mode is OutputMode.COMPLETE
        writer = observed.write.format(self._format).mode("overwrite" if is_whole else "append")
        writer.options(**self._options).option("headgate.batch", batch).save()
        return count_of()


def _read(source: Source, python: PythonSource, context: ReadContext) -> DataFrame:
    name = python_data_sources.register(context.spark, source.id, python.function)
    return context.load(name, source.schema, dict(source.options))


READERS = (SourceReader(PythonSource, _read),)
WRITERS = (SinkWriter(PythonSink, PythonWriter),)
