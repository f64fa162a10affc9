"""`script`: what a script reads and writes itself."""

from pyspark.sql import DataFrame

from jobmanager.core.graph.connectors.script import ScriptSink, ScriptSource
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.graph.sources import Source
from taskrunner.core.invalid_vertex import VertexRefused
from taskrunner.spark.connectors.batch_sink import BatchSink
from taskrunner.spark.connectors.reading import ReadContext, SourceReader
from taskrunner.spark.connectors.writing import SinkWriter, WriteContext


def _read(source: Source, script: ScriptSource, context: ReadContext) -> DataFrame:
    raise VertexRefused("only the script reads it")


def _open(sink: Sink, script: ScriptSink, context: WriteContext) -> BatchSink:
    return context.script_sink(sink)


READERS = (SourceReader(ScriptSource, _read),)
WRITERS = (SinkWriter(ScriptSink, _open),)
