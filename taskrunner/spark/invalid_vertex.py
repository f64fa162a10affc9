"""The faults of a vertex that only Spark, or the code it runs, can find."""

from collections.abc import Sequence
from typing import Self

from jobmanager.core.errors import Fault
from jobmanager.core.ids import VertexId


class InvalidVertex(Exception):
    """Spark refuses what a vertex says."""

    def __init__(
        self, vertex: VertexId, message: str, faults: Sequence[Fault] | None = None
    ) -> None:
        self.vertex = vertex
        self.faults = list(faults or [Fault(vertex, "", message)])
        super().__init__(f"vertex {vertex}: {message}")

    @classmethod
    def of(cls, vertex: VertexId, faults: Sequence[Fault]) -> Self:
        said = [f"{one.field}: {one.message}" if one.field else one.message for one in faults]
        return cls(vertex, "; ".join(said), faults)
