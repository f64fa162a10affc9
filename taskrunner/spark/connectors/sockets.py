"""`socket`: Spark's source of the same name."""

from pyspark.sql import DataFrame

from jobmanager.core.graph.connectors.sockets import SocketSource
from jobmanager.core.graph.sources import Source
from taskrunner.spark.connectors.reading import ReadContext, SourceReader


def _read(source: Source, socket: SocketSource, context: ReadContext) -> DataFrame:
    lines = context.spark.readStream.format("socket").options(**source.options)
    return lines.option("host", socket.host).option("port", socket.port).load()


READERS = (SourceReader(SocketSource, _read),)
WRITERS = ()
