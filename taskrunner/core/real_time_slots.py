"""How many tasks of a real-time job run at the same time: all tasks of all its stages.

Spark's real-time mode keeps the tasks of a query for a whole checkpoint interval, each in a slot of
its own: one for each partition of a source, and one for each subtask behind a shuffle. With fewer
slots a query with a shuffle fails, and one without reads some partitions late or never.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from jobmanager.core.graph.inputs import Ship
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.graph.vertex import Vertex
from jobmanager.core.ids import VertexId
from jobmanager.core.plan import key_groups
from jobmanager.core.plan.job_plan import Region, plan_of


@dataclass(frozen=True, slots=True)
class SlotUse:
    region: str
    vertex: VertexId
    slots: int
    what: str

    def __str__(self) -> str:
        return f"{self.slots} for {self.what} {self.vertex!r} of region {self.region}"


def slots_of(
    graph: JobGraph, parallelism: int, partitions: Mapping[VertexId, int]
) -> Sequence[SlotUse]:
    """What needs how many slots. `partitions` are those of each source that is streamed."""
    return [
        use
        for region in plan_of(graph, parallelism).regions
        for use in _of_region(graph, region, parallelism, partitions)
    ]


def needed(uses: Sequence[SlotUse]) -> int:
    return sum(one.slots for one in uses)


def told(uses: Sequence[SlotUse]) -> str:
    """The sum in words."""
    return f"{needed(uses)} slots ({', '.join(map(str, uses))})"


def _of_region(
    graph: JobGraph, region: Region, parallelism: int, partitions: Mapping[VertexId, int]
) -> Iterator[SlotUse]:
    for name in region.streamed:
        vertex = graph.vertex(name)
        if name in region.sources:
            yield SlotUse(region.id, name, max(1, partitions[name]), "the partitions of source")
        elif vertex.is_keyed:
            tasks = key_groups.subtasks(vertex.state_layout, parallelism)
            yield SlotUse(region.id, name, tasks, "the subtasks of keyed vertex")
        else:
            # each input that is redistributed goes through a stage of its own
            inputs = _rebalanced(vertex)
            if inputs:
                tasks = inputs * (vertex.parallelism or parallelism)
                yield SlotUse(region.id, name, tasks, "the rows that are rebalanced to")
    if set(region.vertices) - set(region.streamed):
        yield SlotUse(region.id, VertexId(region.id), 1, "reading the static sides of")


def _rebalanced(vertex: Vertex) -> int:
    return sum(vertex.ship_of(one) is Ship.REBALANCE for one in vertex.streamed_inputs)
