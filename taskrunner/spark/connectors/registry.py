"""The connectors on Spark's side: one reader for each class of sources, one writer for each class
of sinks.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jobmanager.core.graph.connectors.sink_connector import SinkConnector
from jobmanager.core.graph.connectors.source_connector import SourceConnector
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.ids import VertexId
from taskrunner.core.failures import Explain
from taskrunner.spark.connectors import (
    blackhole,
    cassandra,
    console,
    delta,
    files,
    generator,
    iceberg,
    jdbc,
    kafka,
    python_classes,
    redis,
    script,
    search_indexes,
    sockets,
    spark_formats,
    table,
)
from taskrunner.spark.connectors.reading import SourceReader
from taskrunner.spark.connectors.writing import OutputPlaces, SinkWriter

MODULES = (
    files,
    generator,
    table,
    kafka,
    jdbc,
    delta,
    iceberg,
    redis,
    search_indexes,
    cassandra,
    sockets,
    python_classes,
    spark_formats,
    script,
    console,
    blackhole,
)
"""The same names, in the same order, as in `jobmanager.core.graph.connectors.registry`."""
READERS: Mapping[type[SourceConnector], SourceReader[Any]] = {
    reader.connector: reader for module in MODULES for reader in module.READERS
}
WRITERS: Mapping[type[SinkConnector], SinkWriter[Any]] = {
    writer.connector: writer for module in MODULES for writer in module.WRITERS
}
EXPLANATIONS: Sequence[Explain] = [
    *(reader.explain for reader in READERS.values()),
    *(writer.explain for writer in WRITERS.values()),
]
"""What connectors make of the causes of a failure."""


def lost_batches(
    graph: JobGraph, sinks: Iterable[VertexId], places: OutputPlaces
) -> dict[int, str]:
    """Batches that one of the sinks has committed and cannot publish, each with the reason."""
    found = (graph.vertex(one) for one in sinks)
    return {
        batch: why
        for sink in found
        if isinstance(sink, Sink)
        for batch, why in WRITERS[type(sink.connector)]
        .lost_batches(sink, sink.connector, places)
        .items()
    }
