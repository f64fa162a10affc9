"""Caches what is computed from a graph.

A life is stepped many times a second, and its graph hardly ever changes. Graphs are looked up by
identity, not by value: comparing two graphs would take longer than the cache saves.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.ids import RegionId, SubtaskRef
from jobmanager.core.plan import job_plan
from jobmanager.core.plan.job_plan import Plan, SnapshotKind

_MOST = 4096
Known = TypeVar("Known")


class _KnownPlans(dict[tuple[int, int], tuple[JobGraph, Known]]):
    """A cache by identity and parallelism. It holds the graph, so its identity is not reused."""

    def find(self, graph: JobGraph, parallelism: int, compute: Callable[[], Known]) -> Known:
        key = (id(graph), parallelism)
        if (found := self.get(key)) is not None:
            return found[1]
        if len(self) >= _MOST:
            self.clear()
        computed = compute()
        self[key] = graph, computed
        return computed


_plans: _KnownPlans[Plan] = _KnownPlans()
_awaited: _KnownPlans[Mapping[SubtaskRef, SnapshotKind]] = _KnownPlans()
_regions: _KnownPlans[frozenset[RegionId]] = _KnownPlans()


def plan_of(graph: JobGraph, parallelism: int) -> Plan:
    return _plans.find(graph, parallelism, lambda: job_plan.plan_of(graph, parallelism))


def awaited(graph: JobGraph, parallelism: int) -> Mapping[SubtaskRef, SnapshotKind]:
    """Return the subtasks whose acks complete a checkpoint, and what each ack is about."""
    return _awaited.find(graph, parallelism, lambda: job_plan.awaited(graph, parallelism))


def region_ids(graph: JobGraph) -> frozenset[RegionId]:
    return _regions.find(
        graph, 0, lambda: frozenset(region.id for region in job_plan.plan_of(graph).regions)
    )
