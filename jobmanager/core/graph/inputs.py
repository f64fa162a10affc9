"""What a vertex says of where its rows come from."""

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
    """An output of a vertex beside its results."""

    LATE = "late"
    """Rows of a window that came too late for it, as they came in."""


@dataclass(frozen=True, slots=True)
class Input:
    vertex: VertexId
    ship: Ship | None = None
    """None: what follows from the operators."""
    side: Side | None = None
    """None: the vertex's results."""
