"""Decides from Spark's offset whether a bounded source has given all its rows."""

from collections.abc import Mapping
from typing import Any

from jobmanager.core.graph.sources import GeneratorSource, SourceConnector, TableSource
from jobmanager.core.ids import VertexId


def is_exhausted(connector: SourceConnector, committed: Any) -> bool:
    """Whether a source has no rows after the offset `committed`; None: nothing is committed yet."""
    if committed is None:
        return False
    match connector:
        case GeneratorSource(rows=rows) if rows is not None:
            return rows_generated(connector, committed) >= rows
        case TableSource():
            return True  # one file: its first offset covers it
        case _:
            return False


def all_exhausted(
    connectors: Mapping[VertexId, SourceConnector], committed: Mapping[VertexId, Any]
) -> bool:
    return all(is_exhausted(one, committed.get(vertex)) for vertex, one in connectors.items())


def rows_generated(generator: GeneratorSource, offset: Any) -> int:
    """How many rows a generator has given up to `offset`: Spark counts whole seconds."""
    given = int(offset or 0) * generator.rows_per_second
    return given if generator.rows is None else min(given, generator.rows)


def rows_read(connector: SourceConnector, start: Any, end: Any, counted: int) -> int:
    """How many rows a source gave between two offsets; Spark itself `counted` that many.

    Spark's generator continues after the last row of a bounded one; those rows do not count.
    """
    if isinstance(connector, GeneratorSource) and connector.rows is not None:
        return rows_generated(connector, end) - rows_generated(connector, start)
    return counted
