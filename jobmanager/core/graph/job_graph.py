"""The job graph: what a user asked for, checked and typed. Immutable.

`graph_document` makes one from what was submitted; nothing else should.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any

from jobmanager.core.graph.artifact_vertices import (
    Script,
    ScriptSink,
    ScriptSource,
    Spark,
    StatefulScript,
    StatefulSpark,
)
from jobmanager.core.graph.batch_vertices import DeltaIterate, GraphAlgorithm, Iterate, Ml
from jobmanager.core.graph.inputs import Input
from jobmanager.core.graph.python_vertices import Cogroup, KeyedReduce, Process, Python
from jobmanager.core.graph.relational_vertices import Distinct, FlatMap, Join, Reduce, Sql
from jobmanager.core.graph.window_vertices import Window as Window
from jobmanager.core.ids import VertexId


class Mode(StrEnum):
    STREAMING = "streaming"
    BATCH = "batch"


class FileFormat(StrEnum):
    PARQUET = "parquet"
    JSON = "json"
    CSV = "csv"
    ORC = "orc"
    TEXT = "text"


class Visibility(StrEnum):
    """When a sink's rows can be seen: after their batch, or after its checkpoint."""

    BATCH = "batch"
    CHECKPOINT = "checkpoint"


class OutputMode(StrEnum):
    """What of a changing result comes out of a batch."""

    APPEND = "append"
    """Rows that will never change."""
    UPDATE = "update"
    """Those that changed."""
    COMPLETE = "complete"
    """All of it."""


@dataclass(frozen=True, slots=True)
class Checkpointing:
    interval: timedelta
    timeout: timedelta
    min_pause: timedelta
    retained: int
    tolerable_failures: int


@dataclass(frozen=True, slots=True)
class NoRestart:
    pass


@dataclass(frozen=True, slots=True)
class FixedDelay:
    attempts: int
    delay: timedelta


@dataclass(frozen=True, slots=True)
class ExponentialDelay:
    initial_delay: timedelta
    max_delay: timedelta
    reset_after: timedelta
    max_attempts: int | None


@dataclass(frozen=True, slots=True)
class FailureRate:
    max_failures: int
    interval: timedelta
    delay: timedelta


RestartStrategy = NoRestart | FixedDelay | ExponentialDelay | FailureRate


@dataclass(frozen=True, slots=True)
class Execution:
    batch_interval: timedelta


@dataclass(frozen=True, slots=True)
class Watermark:
    column: str
    delay: timedelta


@dataclass(frozen=True, slots=True)
class FilesSource:
    format: FileFormat
    path: str
    max_files_per_batch: int | None = None
    is_bounded: bool = False
    """In a stream: the files that are there at the start, for the static side of a join."""


@dataclass(frozen=True, slots=True)
class GeneratorSource:
    rows_per_second: int
    rows: int | None
    """None: unbounded."""
    columns: Mapping[str, str]
    """Column name to a Spark SQL expression over `id` and `ts`."""


@dataclass(frozen=True, slots=True)
class TableSource:
    rows: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class SocketSource:
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class PythonSource:
    function: str
    """`module:Class`, a data source of Spark's Python API."""


SourceConnector = (
    FilesSource | GeneratorSource | TableSource | SocketSource | PythonSource | ScriptSource
)


@dataclass(frozen=True, slots=True)
class FilesSink:
    format: FileFormat
    path: str
    partition_by: tuple[str, ...] = ()
    visibility: Visibility = Visibility.BATCH


@dataclass(frozen=True, slots=True)
class ConsoleSink:
    pass


@dataclass(frozen=True, slots=True)
class BlackholeSink:
    pass


@dataclass(frozen=True, slots=True)
class PythonSink:
    function: str
    """`module:Class`, a data source of Spark's Python API that has a writer."""


SinkConnector = FilesSink | ConsoleSink | BlackholeSink | PythonSink | ScriptSink


@dataclass(frozen=True, slots=True)
class Source:
    id: VertexId
    connector: SourceConnector
    schema: str | None
    """Spark DDL. None where the connector's own columns say it."""
    watermark: Watermark | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    parallelism: int | None = None
    inputs: tuple[Input, ...] = ()


@dataclass(frozen=True, slots=True)
class Map:
    id: VertexId
    inputs: tuple[Input, ...]
    select: Mapping[str, str] | None
    """Exactly these columns; None: keep all, then `add` and `drop`."""
    add: Mapping[str, str] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    parallelism: int | None = None


@dataclass(frozen=True, slots=True)
class Filter:
    id: VertexId
    inputs: tuple[Input, ...]
    where: str
    parallelism: int | None = None


@dataclass(frozen=True, slots=True)
class Union:
    id: VertexId
    inputs: tuple[Input, ...]
    parallelism: int | None = None


@dataclass(frozen=True, slots=True)
class Aggregate:
    id: VertexId
    inputs: tuple[Input, ...]
    key: tuple[str, ...]
    aggregate: Mapping[str, str]
    parallelism: int | None = None


@dataclass(frozen=True, slots=True)
class Sink:
    id: VertexId
    inputs: tuple[Input, ...]
    connector: SinkConnector
    options: Mapping[str, str] = field(default_factory=dict)
    parallelism: int | None = None
    mode: OutputMode | None = None
    """None: what follows from the operators."""


Vertex = (
    Source
    | Map
    | Filter
    | Union
    | Aggregate
    | Window
    | Process
    | KeyedReduce
    | Cogroup
    | Python
    | FlatMap
    | Join
    | Distinct
    | Reduce
    | Sql
    | Iterate
    | DeltaIterate
    | GraphAlgorithm
    | Ml
    | Spark
    | Script
    | Sink
)
KEYED = (
    *(Aggregate, Window, Distinct, Reduce, Process, KeyedReduce, Cogroup),
    *(StatefulSpark, StatefulScript),
)
"""Those that always keep state by key; `traits.is_keyed` knows the others too."""
GROUPED = (Process, KeyedReduce, Cogroup)
"""Keyed vertices that are called once for a key group."""
_OPS: Mapping[type, str] = {
    KeyedReduce: "reduce",
    GraphAlgorithm: "graph",
    StatefulSpark: "spark",
    StatefulScript: "script",
}
_CAPITAL = re.compile(r"(?<=[a-z])([A-Z])")


def op_of(vertex: Vertex) -> str:
    """The operator's name in the job-graph language."""
    known = _OPS.get(type(vertex))
    return known or _CAPITAL.sub(r"_\1", type(vertex).__name__).lower()


@dataclass(frozen=True, slots=True)
class JobGraph:
    name: str
    mode: Mode
    parallelism: int
    max_parallelism: int
    """The number of key groups, for ever."""
    checkpointing: Checkpointing
    restart: RestartStrategy
    execution: Execution
    spark: Mapping[str, str]
    vertices: tuple[Vertex, ...]
    artifacts: tuple[str, ...] = ()
    """As submitted: ids, names or paths. In the graph of a job: ids."""

    def vertex(self, vertex_id: VertexId) -> Vertex:
        return next(vertex for vertex in self.vertices if vertex.id == vertex_id)

    def every_vertex(self) -> Iterator[Vertex]:
        """The vertices, and those in the bodies of loops."""
        ahead = list(reversed(self.vertices))
        while ahead:
            vertex = ahead.pop()
            yield vertex
            if isinstance(vertex, Iterate | DeltaIterate):
                ahead.extend(reversed(vertex.body))
