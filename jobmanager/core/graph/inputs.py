"""The inputs of a vertex."""

from dataclasses import dataclass
from enum import StrEnum

from jobmanager.core.ids import VertexId


class Ship(StrEnum):
    """How rows travel along an edge."""

    FORWARD = "forward"
    HASH = "hash"
    REBALANCE = "rebalance"
    BROADCAST = "broadcast"


class Side(StrEnum):
    """A further output of a vertex, beside its results."""

    LATE = "late"
    """Rows that came too late for a window, as they were in its input."""
    BAD = "bad"
    """Records that a source could not decode, as they came."""


@dataclass(frozen=True, slots=True)
class Input:
    vertex: VertexId
    ship: Ship | None = None
    """None: determined by the operators."""
    side: Side | None = None
    """None: the vertex's results."""
