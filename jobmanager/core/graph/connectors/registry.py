"""The connectors of the job-graph language: each name, with the class that reads it.

Each module in this list has one connector: its source, its sink, or both.
"""

from collections.abc import Mapping
from typing import TypeVar

from jobmanager.core.graph.connectors import (
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
from jobmanager.core.graph.connectors.connector import Connector
from jobmanager.core.graph.connectors.sink_connector import SinkConnector
from jobmanager.core.graph.connectors.source_connector import SourceConnector
from jobmanager.core.graph.document_fields import Fields

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
SOURCES: Mapping[str, type[SourceConnector]] = {
    one.name: one for module in MODULES for one in module.SOURCES
}
SINKS: Mapping[str, type[SinkConnector]] = {
    one.name: one for module in MODULES for one in module.SINKS
}
C = TypeVar("C", bound=Connector)


def read_source(fields: Fields) -> SourceConnector | None:
    """Read the connector of a source; None: there is no such connector, and that was noted."""
    return _read(fields, SOURCES, "source")


def read_sink(fields: Fields) -> SinkConnector | None:
    """Read the connector of a sink; None: there is no such connector, and that was noted."""
    return _read(fields, SINKS, "sink")


def _read(fields: Fields, known: Mapping[str, type[C]], role: str) -> C | None:
    name = fields.text("connector")
    if name in known:
        return known[name].read(fields)
    fields.ignore_rest()  # the other fields may be right for the connector that was meant
    if name:
        usable = ", ".join(one for one, connector in known.items() if connector.is_suggested)
        fields.fault("connector", f"{name!r} is not a {role} connector: use one of {usable}")
    return None
