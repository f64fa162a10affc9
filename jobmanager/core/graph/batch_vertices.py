"""Vertices that only a batch job can have, and `ml`, which a stream can have with a saved model."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from jobmanager.core.graph.inputs import Input
from jobmanager.core.ids import VertexId

if TYPE_CHECKING:  # a body is made of vertices, so the two modules need each other
    from jobmanager.core.graph.job_graph import Vertex


@dataclass(frozen=True, slots=True)
class Iterate:
    """Puts the rows of its first input through the body again and again.

    In the body the id of the first input means what the round before gave; the ids of the
    others mean the same rows in every round.
    """

    id: VertexId
    inputs: tuple[Input, ...]
    body: "tuple[Vertex, ...]"
    result: VertexId
    """The body's vertex that gives the rows of the next round."""
    max_iterations: int
    until: str | None = None
    """A Spark SQL aggregate over the rows of a round; the loop ends after the round it is true."""
    parallelism: int | None = None


@dataclass(frozen=True, slots=True)
class DeltaIterate:
    """Changes a solution set (its first input) for as long as there is a workset (its second)."""

    id: VertexId
    inputs: tuple[Input, ...]
    body: "tuple[Vertex, ...]"
    key: tuple[str, ...]
    """Of the solution set, which has one row a key."""
    delta: VertexId
    """The body's vertex whose rows replace those of the same key in the solution set."""
    workset: VertexId
    """The body's vertex that gives the workset of the next round."""
    max_iterations: int
    until: str | None = None
    """A Spark SQL aggregate over the delta of a round."""
    parallelism: int | None = None


@dataclass(frozen=True, slots=True)
class PageRank:
    damping: float
    max_iterations: int
    tolerance: float
    """Of the mean change of a rank in a round, as networkx has it."""


@dataclass(frozen=True, slots=True)
class ConnectedComponents:
    pass


@dataclass(frozen=True, slots=True)
class ShortestPaths:
    sources: tuple[str | int | float, ...]


@dataclass(frozen=True, slots=True)
class LabelPropagation:
    max_iterations: int


@dataclass(frozen=True, slots=True)
class Triangles:
    pass


@dataclass(frozen=True, slots=True)
class VertexUpdate:
    """The vertex-centric loop, each part in Spark SQL."""

    initial: str
    """A vertex's first value."""
    message: str
    """What an edge carries, from the value of its source; NULL: nothing."""
    combine: str
    """An aggregate over the messages that come to a vertex."""
    update: str
    """A vertex's next value, from its value and the combined message, NULL where none came."""
    max_iterations: int


Algorithm = (
    PageRank | ConnectedComponents | ShortestPaths | LabelPropagation | Triangles | VertexUpdate
)


@dataclass(frozen=True, slots=True)
class GraphAlgorithm:
    """The operator `graph`."""

    id: VertexId
    inputs: tuple[Input, ...]
    edges: VertexId
    vertices: VertexId | None
    """The input with the vertices; None: those that edges name."""
    src: str
    dst: str
    weight: str | None
    """None: every edge weighs 1."""
    algorithm: Algorithm
    parallelism: int | None = None


class StageKind(StrEnum):
    """The stages of an `ml` pipeline."""

    STRING_INDEXER = "string_indexer"
    ONE_HOT = "one_hot"
    STANDARD_SCALER = "standard_scaler"
    MIN_MAX_SCALER = "min_max_scaler"
    POLYNOMIAL_EXPANSION = "polynomial_expansion"
    LINEAR_REGRESSION = "linear_regression"
    LOGISTIC_REGRESSION = "logistic_regression"
    K_MEANS = "k_means"
    ALS = "als"


@dataclass(frozen=True, slots=True)
class Stage:
    kind: StageKind
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Every parameter that is not left to Spark."""
    name: str | None = None
    """The column its result comes out as; None: it is only for the next stage."""


@dataclass(frozen=True, slots=True)
class Ml:
    id: VertexId
    inputs: tuple[Input, ...]
    rows: VertexId
    """The input that is transformed."""
    fit: VertexId | None = None
    """The input that the pipeline is fitted on; None: `model` is taken."""
    stages: tuple[Stage, ...] = ()
    features: tuple[str, ...] = ()
    label: str | None = None
    save: str | None = None
    model: str | None = None
    """Path of a saved model."""
    parallelism: int | None = None
