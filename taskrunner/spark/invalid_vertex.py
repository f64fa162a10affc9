"""The fault of a vertex that only Spark, or the code it runs, can find."""

from jobmanager.core.ids import VertexId


class InvalidVertex(Exception):
    """Spark refuses what a vertex says."""

    def __init__(self, vertex: VertexId, message: str) -> None:
        self.vertex = vertex
        super().__init__(f"vertex {vertex}: {message}")
