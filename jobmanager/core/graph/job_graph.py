"""The job graph as submitted, checked and typed. Immutable.

Only `graph_document` should make a graph.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from jobmanager.core.graph.meta import JobMeta
from jobmanager.core.graph.vertex import Vertex
from jobmanager.core.ids import VertexId


class Mode(StrEnum):
    STREAMING = "streaming"
    BATCH = "batch"


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


class ExecutionStyle(StrEnum):
    MICRO_BATCH = "micro_batch"
    REAL_TIME = "real_time"
    """Records pass at once; what was done is committed once in each checkpoint interval."""


class RunnerKind(StrEnum):
    OWN = "own"
    """A process for this job alone."""
    SHARED = "shared"
    """A process that runs other small jobs at the same time, in Spark sessions of their own."""


@dataclass(frozen=True, slots=True)
class Execution:
    batch_interval: timedelta
    style: ExecutionStyle = ExecutionStyle.MICRO_BATCH
    target_batch_time: timedelta = timedelta(seconds=20)
    """How long a batch should take when much input waits. Zero: a batch takes all input."""
    runner: RunnerKind = RunnerKind.OWN

    @property
    def is_shared(self) -> bool:
        """Whether the job asks for a process that it shares with other jobs."""
        return self.runner is RunnerKind.SHARED

    @property
    def is_real_time(self) -> bool:
        return self.style is ExecutionStyle.REAL_TIME

    @property
    def limits_batches(self) -> bool:
        return not self.is_real_time and self.target_batch_time > timedelta(0)


@dataclass(frozen=True, slots=True)
class JobGraph:
    name: str
    mode: Mode
    parallelism: int
    max_parallelism: int
    """The number of key groups, which never changes."""
    checkpointing: Checkpointing
    restart: RestartStrategy
    execution: Execution
    spark: Mapping[str, str]
    vertices: tuple[Vertex, ...]
    artifacts: tuple[str, ...] = ()
    """As submitted: ids, names or paths. In the graph of a job: ids."""
    meta: JobMeta = field(default_factory=JobMeta)

    def vertex(self, vertex_id: VertexId) -> Vertex:
        return next(vertex for vertex in self.vertices if vertex.id == vertex_id)

    def every_vertex(self) -> Iterator[Vertex]:
        """Return all vertices, including those in the bodies of loops."""
        ahead = list(reversed(self.vertices))
        while ahead:
            vertex = ahead.pop()
            yield vertex
            ahead.extend(reversed(vertex.inner_vertices))
