"""The faults of a vertex that only Spark, or the code it runs, can find."""

from collections.abc import Sequence
from typing import Self

from jobmanager.core.errors import Fault
from jobmanager.core.ids import VertexId


class VertexRefused(Exception):
    """A vertex cannot be computed as written. The compiler adds the name of the vertex."""

    def __init__(self, message: str, field: str = "") -> None:
        self.message = message
        self.field = field
        super().__init__(f"{field}: {message}" if field else message)


class InvalidVertex(Exception):
    """Spark refuses a vertex."""

    def __init__(self, vertex: VertexId, message: str, field: str = "") -> None:
        self.vertex = vertex
        self.faults = [Fault(vertex, field, message)]
        """Each with its field; without a field it is about the whole vertex."""
        super().__init__(f"vertex {vertex}: {_told(self.faults)}")

    @classmethod
    def of(cls, vertex: VertexId, faults: Sequence[Fault]) -> Self:
        found = cls(vertex, _told(faults))
        found.faults = list(faults)
        return found


def _told(faults: Sequence[Fault]) -> str:
    return "; ".join(f"{one.field}: {one.message}" if one.field else one.message for one in faults)
