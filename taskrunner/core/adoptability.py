"""Decides whether a job graph can continue from the checkpoint of a plain Spark query.

Spark identifies sources and stateful operators by their order, so a graph with other ones, or
with the same ones in another order, would use the wrong offsets and the wrong state.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from jobmanager.core.graph.connectors.files import FilesSource
from jobmanager.core.graph.connectors.generator import GeneratorSource
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.graph.sources import Source
from jobmanager.core.ids import VertexId
from jobmanager.core.paths.location import Location, UnclearLocation, location_of
from jobmanager.core.plan import spark_order
from jobmanager.core.snapshots.storage_uri import UnsupportedStorage, local_path


@dataclass(frozen=True, slots=True)
class FoundCheckpoint:
    """The description of a query in its Spark checkpoint."""

    offsets: Sequence[Any]
    """One for each source, in Spark's order."""
    operators: Sequence[str]
    """Spark's names of the stateful operators, in its order."""
    files: Mapping[int, str]
    """Source to a file that it has read, as a URI, if it has read one."""


def objections(
    found: FoundCheckpoint,
    graph: JobGraph,
    sink: VertexId,
    directories: Mapping[VertexId, Path | Location],
) -> list[str]:
    """Every reason why the graph cannot continue from the checkpoint; empty: it can.

    `directories` are the directories that the graph's files sources read.
    """
    sources, keyed = spark_order.sources(graph, sink), spark_order.keyed(graph, sink)
    objected = list(_counts(found, sources, keyed))
    if len(found.offsets) == len(sources):
        for number, name in enumerate(sources):
            vertex = graph.vertex(name)
            assert isinstance(vertex, Source)
            objected += _source(number, vertex, found, directories.get(name))
    return objected


def _counts(
    found: FoundCheckpoint, sources: Sequence[VertexId], keyed: Sequence[VertexId]
) -> Iterator[str]:
    if len(found.offsets) != len(sources):
        yield (
            f"the checkpoint has {_number(len(found.offsets), 'source')}, the graph has "
            f"{len(sources)} ({', '.join(sources)})"
        )
    if len(found.operators) != len(keyed):
        yield (
            f"the checkpoint has {_number(len(found.operators), 'stateful operator')} "
            f"({', '.join(found.operators) or 'none'}), the graph has "
            f"{_number(len(keyed), 'keyed vertex', 'keyed vertices')} "
            f"({', '.join(keyed) or 'none'})"
        )


def _source(
    number: int, vertex: Source, found: FoundCheckpoint, directory: Path | Location | None
) -> Iterator[str]:
    offset = found.offsets[number]
    is_files = isinstance(offset, Mapping) and "logOffset" in offset
    match vertex.connector:
        case FilesSource() if offset is not None and not is_files:
            yield f"source {number} of the checkpoint does not read files, vertex {vertex.id} does"
        case GeneratorSource() if offset is not None and not isinstance(offset, int):
            yield f"source {number} of the checkpoint is no `rate` source, as vertex {vertex.id} is"
        case FilesSource() if directory is not None and number in found.files:
            read = found.files[number]
            if not _is_in(read, directory):
                yield (
                    f"source {number} of the checkpoint has read {read}, vertex {vertex.id} reads "
                    f"{directory}: Spark knows files by their paths, and would read all again"
                )
        case _:
            return


def _is_in(uri: str, directory: Path | Location) -> bool:
    try:
        if isinstance(directory, Location):
            return directory.contains(location_of(unquote(uri), "/"))
        return local_path(uri).is_relative_to(directory)
    except (UnsupportedStorage, UnclearLocation):
        return False


def _number(count: int, one: str, several: str | None = None) -> str:
    return f"{count} {one if count == 1 else several or one + 's'}"
