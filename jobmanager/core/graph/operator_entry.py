"""What the language knows of an operator before it has read a vertex of it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from jobmanager.core.graph.document_fields import Fields
from jobmanager.core.graph.inputs import Input
from jobmanager.core.graph.job_graph import Mode
from jobmanager.core.graph.vertex import Vertex
from jobmanager.core.ids import VertexId

Body = tuple[tuple[Vertex, ...], tuple[VertexId, ...]]
"""The vertices of a body, and the ids of those whose rows come out of it."""


class Arity(Enum):
    """How many inputs a vertex has."""

    NONE = 0
    ONE = 1
    TWO = 2
    SOME = None
    """One or more; what else there is to say, the operator's reader says."""


@dataclass(frozen=True, slots=True)
class Header:
    """What is read the same way for every operator, and how to read a body inside."""

    id: VertexId
    inputs: tuple[Input, ...]
    mode: Mode
    read_body: Callable[[Fields, tuple[str, ...]], Body]
    """Reads the field `body`. The ids of what comes out of it are named by the caller, or none
    are: then it gives those that nothing in the body uses.
    """


Reader = Callable[[Fields, Header], Vertex]
"""Makes the vertex out of its fields, and notes what is wrong with them."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of the language."""

    name: str
    read: Reader
    arity: Arity = Arity.ONE
    is_always_keyed: bool = False
    """It has the job's parallelism, whatever its inputs are."""
    only_in_batch: bool = False
    """It needs all its rows at once."""
