"""A source or sink with its secrets, for the code that reads or writes it. The vertex in the graph
keeps the references.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from jobmanager.core import secret_references
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.graph.sources import Source

V = TypeVar("V", Source, Sink)


def with_secrets(vertex: V, secret: Callable[[str], str]) -> V:
    """Fills in options, and the connector if it has fields for secrets."""
    options = secret_references.filled(vertex.options, secret)
    connector = vertex.connector
    if connector.secret_fields:
        connector = secret_references.filled(connector, secret)
    if options == vertex.options and connector is vertex.connector:
        return vertex
    return replace(vertex, options=options, connector=connector)
