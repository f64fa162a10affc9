"""Decides whether a job graph fits saved state, and if not, why not.

This is the only such rule, used three times: when a job is submitted with a savepoint or
checkpoint, in the plan of an upgrade, and in the runner, as a last check before Spark starts.

Spark numbers the sources and the states of a region's query by their order, and checks little of
this. So state that Spark would take for another does not fit, and is reported by name. The schema
of each state, which only Spark can check, is not checked here. Any parallelism that divides
`max_parallelism` fits: state is repartitioned.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from jobmanager.core.errors import Fault
from jobmanager.core.graph.job_graph import JobGraph, Mode
from jobmanager.core.ids import RegionId, VertexId
from jobmanager.core.plan import spark_order
from jobmanager.core.plan.job_plan import plan_of
from jobmanager.core.snapshots.manifest import Manifest, RegionManifest


@dataclass(frozen=True, slots=True)
class RegionState:
    """The sources and states that Spark has kept for one region, in Spark's order."""

    sources: tuple[VertexId, ...]
    keyed: tuple[VertexId, ...]
    names_each_once: bool = False
    """Whether a vertex that Spark numbers twice is named only once, as in a manifest."""


@dataclass(frozen=True, slots=True)
class SavedState:
    max_parallelism: int
    regions: Mapping[RegionId, RegionState]
    """The regions that have committed a batch; other regions have no state."""


class Fate(StrEnum):
    KEPT = "kept"
    LOST = "lost"
    GAINED = "gained"
    """It starts empty."""


@dataclass(frozen=True, slots=True)
class StateFate:
    region: RegionId
    vertex: VertexId | None
    """None: the offsets of the region's sources."""
    fate: Fate


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether saved state and a graph fit. Faults name their place in the graph."""

    fates: Sequence[StateFate]
    obstacles: Sequence[Fault]
    """Faults that no flag can override."""
    losses: Sequence[Fault]
    """State that would be dropped; `allow_non_restored_state` allows that."""

    def faults(self, *, allow_non_restored_state: bool) -> list[Fault]:
        """Return every reason why the graph cannot continue from the state; none: it can."""
        return [*self.obstacles, *(() if allow_non_restored_state else self.losses)]


def fit(state: SavedState, graph: JobGraph) -> Fit:
    now = state_of_graph(graph)
    fates = list(_fates(state, now))
    obstacles = [*_mode_faults(graph), *_obstacles(state, now)]
    return Fit(fates, obstacles, list(_losses(fates)))


def state_in(manifest: Manifest) -> SavedState:
    """Return the state that a checkpoint or a savepoint holds."""
    regions = {
        name: RegionState(tuple(region.offsets), tuple(_keyed(region)), names_each_once=True)
        for name, region in manifest.regions.items()
        if region.batch is not None
    }
    return SavedState(manifest.max_parallelism, regions)


def state_of_graph(graph: JobGraph) -> SavedState:
    """Return the state that a job with this graph keeps, once each of its regions has run."""
    regions = {
        region.id: RegionState(
            tuple(spark_order.sources(graph, VertexId(region.id))),
            tuple(spark_order.keyed(graph, VertexId(region.id))),
        )
        for region in plan_of(graph).regions
    }
    return SavedState(graph.max_parallelism, regions)


def drops_state(region: RegionManifest, graph: JobGraph, name: RegionId) -> bool:
    """Whether the region had keyed state, and has no keyed vertex any more."""
    return bool(region.pointers) and not spark_order.keyed(graph, VertexId(name))


def _fates(before: SavedState, after: SavedState) -> Iterator[StateFate]:
    for region in {**before.regions, **after.regions}:
        if region not in after.regions:
            yield StateFate(region, None, Fate.LOST)
        if region not in before.regions:
            yield StateFate(region, None, Fate.GAINED)
        had = before.regions[region].keyed if region in before.regions else ()
        has = after.regions[region].keyed if region in after.regions else ()
        for vertex in _once([*had, *has]):
            kept = Fate.KEPT if vertex in has else Fate.LOST
            yield StateFate(region, vertex, kept if vertex in had else Fate.GAINED)


def _losses(fates: Iterable[StateFate]) -> Iterator[Fault]:
    for one in fates:
        if one.fate is Fate.LOST:
            what = f"the state of vertex {one.vertex}" if one.vertex else "the offsets"
            yield Fault(
                None,
                "vertices",
                f"region {one.region}: {what} would be left behind; "
                "set allow_non_restored_state if that is meant",
            )


def _mode_faults(graph: JobGraph) -> Iterator[Fault]:
    if graph.mode is Mode.BATCH:
        yield Fault(
            None,
            "mode",
            "a batch job is run as a whole and goes on from no state: submit it without a "
            "savepoint or checkpoint, or with mode: streaming",
        )


def _obstacles(before: SavedState, after: SavedState) -> Iterator[Fault]:
    if before.max_parallelism != after.max_parallelism:
        yield Fault(
            None,
            "max_parallelism",
            f"max_parallelism is {before.max_parallelism} in the state and "
            f"{after.max_parallelism} in the graph: the number of key groups never changes, "
            f"submit the graph with {before.max_parallelism}",
        )
    for name, had in before.regions.items():
        if name in after.regions:
            yield from _misorders(name, had, after.regions[name])


def _misorders(name: RegionId, had: RegionState, has: RegionState) -> Iterator[Fault]:
    reads = _once(has.sources) if had.names_each_once else list(has.sources)
    if list(had.sources) != reads:
        yield Fault(
            name,
            "inputs",
            f"region {name} reads from {_names(had.sources)} in the state and from "
            f"{_names(reads)} in the graph: Spark knows sources by their order only; "
            "give the new input a sink of its own",
        )
    keeps = _once(has.keyed) if had.names_each_once else list(has.keyed)
    if keeps and list(had.keyed) != keeps:
        yield Fault(
            name,
            "inputs",
            f"region {name} has keyed state of {_names(had.keyed)} and would have "
            f"{_names(keeps)}: Spark knows state by its order only; "
            "give the new vertices a sink of their own",
        )


def _keyed(region: RegionManifest) -> list[VertexId]:
    return _once(pointer.vertex for pointer in region.pointers)


def _once(vertices: Iterable[VertexId]) -> list[VertexId]:
    return list(dict.fromkeys(vertices))


def _names(vertices: Sequence[VertexId]) -> str:
    return ", ".join(vertices) or "nothing"
