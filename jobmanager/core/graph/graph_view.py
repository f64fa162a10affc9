"""A graph while it is checked: what is upstream of each vertex, and which sources are bounded."""

from collections.abc import Iterator, Mapping, Sequence

from jobmanager.core.graph.document_fields import Faults
from jobmanager.core.graph.inputs import Side
from jobmanager.core.graph.job_graph import Mode
from jobmanager.core.graph.sources import Source
from jobmanager.core.graph.vertex import Vertex
from jobmanager.core.ids import VertexId


class GraphView:
    """The vertices of a job, or of the body of a loop, in which ids of the loop's inputs mean
    vertices outside. The shape was checked before.
    """

    def __init__(self, vertices: Sequence[Vertex], mode: Mode) -> None:
        self.vertices: Mapping[VertexId, Vertex] = {vertex.id: vertex for vertex in vertices}
        self.mode = mode
        self._static: dict[VertexId, bool] = {}

    def behind(self, vertex_id: VertexId) -> Iterator[Vertex]:
        """Return the vertices that the vertex's rows stream through, including itself."""
        found: set[VertexId] = set()
        ahead = [vertex_id]
        while ahead:
            one = ahead.pop()
            if one not in found and one in self.vertices:
                found.add(one)
                yield self.vertices[one]
                ahead.extend(into.vertex for into in self.vertices[one].streamed_inputs)

    def sources(self, vertex_id: VertexId) -> list[Source]:
        """Return the sources that the vertex's rows stream from."""
        return [vertex for vertex in self.behind(vertex_id) if isinstance(vertex, Source)]

    def is_static(self, vertex_id: VertexId) -> bool:
        """Whether all sources upstream of the vertex can be read as a whole."""
        if vertex_id not in self._static:
            vertex = self.vertices.get(vertex_id)
            self._static[vertex_id] = vertex is not None and (
                vertex.can_be_static
                if isinstance(vertex, Source)
                else all(self.is_static(one.vertex) for one in vertex.inputs)
            )
        return self._static[vertex_id]

    def is_side_taken(self, vertex_id: VertexId, side: Side) -> bool:
        """Whether a vertex uses the rows of that side."""
        return any(
            one.vertex == vertex_id and one.side is side
            for vertex in self.vertices.values()
            for one in vertex.inputs
        )

    def need_watermarks(self, vertex_id: VertexId, faults: Faults) -> None:
        """Note the sources upstream of the vertex that have no watermark."""
        for source in self.sources(vertex_id):
            if source.watermark is None:
                faults.add(
                    source.id,
                    "watermark",
                    f"missing: {vertex_id!r} uses the event time of its rows",
                )

    def need_rows_with_watermark(self, vertex_id: VertexId, faults: Faults) -> None:
        """Note the upstream vertices whose results have no watermark, which `within` needs."""
        for one in self.behind(vertex_id):
            if one.emits_windows or one.emits_updates:
                faults.add(
                    vertex_id,
                    "within",
                    f"the results of {one.id!r} carry no watermark: leave this field out",
                )
