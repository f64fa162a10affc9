"""Whether a job graph can go on from the state in a manifest, and if not, why not.

Spark numbers sources and state by their order in a region's query, and checks little
of it. So whatever would be mistaken for something else is refused here, by name.
"""

from collections.abc import Iterator

from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.ids import RegionId, VertexId
from jobmanager.core.plan import spark_order
from jobmanager.core.plan.job_plan import plan_of
from jobmanager.core.snapshots.manifest import Manifest, RegionManifest


def objections(manifest: Manifest, graph: JobGraph, *, allow_non_restored_state: bool) -> list[str]:
    """Every reason why the graph cannot go on from there; none: it can, at any parallelism."""
    found = list(_sizes(manifest, graph))
    if not allow_non_restored_state:
        found += _left_behind(manifest, graph)
    for region in _shared(manifest, graph):
        found += _order(region, manifest.regions[region], graph)
    return found


def drops_state(region: RegionManifest, graph: JobGraph, name: RegionId) -> bool:
    """The region had keyed state, and has no keyed vertex any more."""
    return bool(region.pointers) and not spark_order.keyed(graph, VertexId(name))


def _sizes(manifest: Manifest, graph: JobGraph) -> Iterator[str]:
    if manifest.max_parallelism != graph.max_parallelism:
        yield (
            f"it has max_parallelism {manifest.max_parallelism} and the job "
            f"{graph.max_parallelism}: the number of key groups never changes"
        )


def _left_behind(manifest: Manifest, graph: JobGraph) -> Iterator[str]:
    regions = {region.id: region for region in plan_of(graph).regions}
    for name, region in manifest.regions.items():
        if region.batch is None:
            continue
        if name not in regions:
            yield f"it has state of region {name}, which the job has not; {_ALLOW}"
            continue
        for vertex in _keyed(region):
            if vertex not in regions[name].keyed:
                yield (
                    f"it has state of vertex {vertex} in region {name}, which the job has not; "
                    f"{_ALLOW}"
                )


_ALLOW = "set allow_non_restored_state to leave it behind"


def _shared(manifest: Manifest, graph: JobGraph) -> list[RegionId]:
    names = {region.id for region in plan_of(graph).regions}
    return [n for n, one in manifest.regions.items() if n in names and one.batch is not None]


def _order(name: RegionId, region: RegionManifest, graph: JobGraph) -> Iterator[str]:
    sources = list(dict.fromkeys(spark_order.sources(graph, VertexId(name))))
    if sources != list(region.offsets):
        yield (
            f"region {name} read from {_names(region.offsets)} and now reads from "
            f"{_names(sources)}: Spark knows its sources by their order"
        )
    keyed = list(dict.fromkeys(spark_order.keyed(graph, VertexId(name))))
    if keyed and keyed != _keyed(region):
        yield (
            f"region {name} had keyed state of {_names(_keyed(region))} and now has "
            f"{_names(keyed)}: Spark knows state by its order"
        )


def _keyed(region: RegionManifest) -> list[VertexId]:
    return list(dict.fromkeys(pointer.vertex for pointer in region.pointers))


def _names(vertices: object) -> str:
    assert isinstance(vertices, list | dict)
    return ", ".join(str(one) for one in vertices) or "nothing"
