"""An entry of an operator in the job-graph language."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from jobmanager.core.graph.document_fields import Fields
from jobmanager.core.graph.inputs import Input
from jobmanager.core.graph.job_graph import Mode
from jobmanager.core.graph.vertex import Vertex
from jobmanager.core.ids import VertexId

Body = tuple[tuple[Vertex, ...], tuple[VertexId, ...]]
"""The vertices of a loop's body, and the ids of the vertices that are its results."""


class Arity(Enum):
    """How many inputs a vertex has."""

    NONE = 0
    ONE = 1
    TWO = 2
    SOME = None
    """One or more; the operator's reader checks the number."""


@dataclass(frozen=True, slots=True)
class Header:
    """The fields that every operator has, and the way to read the body of a loop."""

    id: VertexId
    inputs: tuple[Input, ...]
    mode: Mode
    read_body: Callable[[Fields, tuple[str, ...]], Body]
    """Reads the field `body`. The caller names the vertices that are its results; without names,
    the results are the vertices that nothing in the body uses.
    """


Reader = Callable[[Fields, Header], Vertex]
"""Makes the vertex from its fields, and notes their faults."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of the language."""

    name: str
    read: Reader
    arity: Arity = Arity.ONE
    is_always_keyed: bool = False
    """A vertex of this operator always has the job's parallelism."""
    only_in_batch: bool = False
    """The operator needs all its rows at once, so a batch job."""
