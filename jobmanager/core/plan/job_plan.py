"""The plan of a job graph: tasks, edges, regions and the subtasks that ack barriers.

Computed from the graph alone, by the same code in the JobManager (which subtasks does a barrier
await?) and in the runner (which Spark queries are started?), so the two cannot disagree.

* A **task** is a chain of vertices joined by forward edges.
* A **region** is everything upstream of one sink, or of several sinks that share their keyed
  vertices (`regions.py`): one Spark query. A vertex that two regions share runs once in each.
* A **subtask** acks barriers. A keyed vertex has a subtask for each of its state partitions. A
  source has one subtask, since Spark keeps one offset for each source of a query; a sink has one
  subtask, since the driver commits a batch once.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum

from jobmanager.core.graph.inputs import Ship
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.graph.output_mode import OutputMode
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.graph.sources import Source
from jobmanager.core.graph.vertex import Vertex
from jobmanager.core.ids import RegionId, SubtaskRef, VertexId
from jobmanager.core.plan import key_groups
from jobmanager.core.plan.regions import Query, ancestors, output_mode_of, queries_of


class SnapshotKind(StrEnum):
    """What a subtask's ack is about."""

    STATE = "state"
    OFFSETS = "offsets"
    SINK = "sink"


@dataclass(frozen=True, slots=True)
class Edge:
    source: VertexId
    target: VertexId
    ship: Ship


@dataclass(frozen=True, slots=True)
class Task:
    head: VertexId
    """The first vertex of the task, which gives it its name."""
    vertices: tuple[VertexId, ...]
    parallelism: int


@dataclass(frozen=True, slots=True)
class Region:
    id: RegionId
    vertices: tuple[VertexId, ...]
    """The vertices, each after its inputs."""
    streamed: tuple[VertexId, ...]
    """The same without vertices that are only read as a whole: the static side of a join."""
    root: VertexId
    """The vertex whose rows the query computes: the sink, or the last that its sinks share."""
    sinks: tuple[VertexId, ...]
    """The sinks; the first gives the region its name."""
    sources: tuple[VertexId, ...]
    keyed: tuple[VertexId, ...]
    output_mode: OutputMode
    is_bounded: bool
    """Whether every source has an end."""


@dataclass(frozen=True, slots=True)
class Plan:
    tasks: tuple[Task, ...]
    edges: tuple[Edge, ...]
    regions: tuple[Region, ...]


def plan_of(graph: JobGraph, parallelism: int | None = None) -> Plan:
    """Make the plan of `graph`, at the parallelism in force (by default the graph's own)."""
    p = parallelism or graph.parallelism
    order = in_order(graph)
    edges = tuple(edge for vertex in order for edge in _edges_into(vertex))
    return Plan(
        tasks=tuple(_tasks(order, edges, p)),
        edges=edges,
        regions=tuple(_region(graph, query) for query in queries_of(graph)),
    )


def in_order(graph: JobGraph) -> tuple[Vertex, ...]:
    """Return the vertices, each after its inputs, otherwise as written. The graph is acyclic."""
    placed: dict[VertexId, Vertex] = {}

    def place(vertex: Vertex) -> None:
        for one in vertex.inputs:
            if one.vertex not in placed:
                place(graph.vertex(one.vertex))
        placed.setdefault(vertex.id, vertex)

    for vertex in graph.vertices:
        place(vertex)
    return tuple(placed.values())


def assignment(graph: JobGraph, parallelism: int) -> dict[tuple[str, int], list[int]]:
    """Return which subtask of which keyed vertex owns which key groups."""
    return {
        (vertex.id, subtask): list(
            key_groups.owned(vertex.state_layout, subtask, parallelism, graph.max_parallelism)
        )
        for vertex in graph.vertices
        if vertex.is_keyed
        for subtask in range(key_groups.subtasks(vertex.state_layout, parallelism))
    }


def awaited(graph: JobGraph, parallelism: int) -> dict[SubtaskRef, SnapshotKind]:
    """Return the subtasks whose acks complete a checkpoint, and what each ack is about."""
    return {
        SubtaskRef(region.id, vertex_id, subtask): kind
        for region in plan_of(graph, parallelism).regions
        for vertex_id in region.streamed
        for kind, count in _participation(graph.vertex(vertex_id), parallelism)
        for subtask in range(count)
    }


def shared_by_regions(graph: JobGraph, regions: Collection[Region]) -> set[VertexId]:
    """Return the vertices after which the paths of regions that share them part."""
    within = {
        vertex.id: {region.id for region in regions if vertex.id in region.vertices}
        for vertex in graph.vertices
    }
    return {
        one.vertex
        for vertex in graph.vertices
        for one in vertex.inputs
        if len(within[one.vertex]) > 1 and within[vertex.id] != within[one.vertex]
    }


def _participation(vertex: Vertex, parallelism: int) -> Iterator[tuple[SnapshotKind, int]]:
    if isinstance(vertex, Source):
        yield SnapshotKind.OFFSETS, 1
    elif isinstance(vertex, Sink):
        yield SnapshotKind.SINK, 1
    elif vertex.is_keyed:
        yield SnapshotKind.STATE, key_groups.subtasks(vertex.state_layout, parallelism)


def _parallelism(vertex: Vertex, parallelism: int) -> int:
    if vertex.is_keyed:
        return key_groups.subtasks(vertex.state_layout, parallelism)
    return vertex.parallelism or parallelism


def _edges_into(vertex: Vertex) -> Iterator[Edge]:
    for one in vertex.inputs:
        yield Edge(one.vertex, vertex.id, vertex.ship_of(one))


def _tasks(order: tuple[Vertex, ...], edges: tuple[Edge, ...], parallelism: int) -> Iterator[Task]:
    chains: dict[VertexId, list[VertexId]] = {}
    head_of: dict[VertexId, VertexId] = {}
    width: dict[VertexId, int] = {}
    for vertex in order:
        into = [edge for edge in edges if edge.target == vertex.id]
        if len(into) == 1 and into[0].ship is Ship.FORWARD:
            head = head_of[into[0].source]
        else:
            head = vertex.id
            width[head] = _parallelism(vertex, parallelism)
        head_of[vertex.id] = head
        chains.setdefault(head, []).append(vertex.id)
    for head, vertices in chains.items():
        yield Task(head, tuple(vertices), width[head])


def _region(graph: JobGraph, query: Query) -> Region:
    behind = set[VertexId]().union(
        *(ancestors(graph, sink, with_static=True) for sink in query.sinks)
    )
    vertices = tuple(v for v in in_order(graph) if v.id in behind)
    behind = set[VertexId]().union(*(ancestors(graph, sink) for sink in query.sinks))
    streamed = [v for v in vertices if v.id in behind]
    sources = [v for v in streamed if isinstance(v, Source)]
    return Region(
        id=RegionId(query.sinks[0]),
        vertices=tuple(v.id for v in vertices),
        streamed=tuple(v.id for v in streamed),
        root=query.root,
        sinks=query.sinks,
        sources=tuple(v.id for v in sources),
        keyed=tuple(v.id for v in streamed if v.is_keyed),
        output_mode=output_mode_of(graph, query.sinks[0]),
        is_bounded=all(source.is_bounded(graph.mode) for source in sources),
    )
