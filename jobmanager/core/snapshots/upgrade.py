"""What becomes of a job's state when its graph is replaced: said before anything stops.

Spark knows the sources and the state of a region's query by their order only, and
checks little of it. So what would be mistaken for something else is impossible
here, by name; what Spark itself can judge, the layout of each state, is left to it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from jobmanager.core.graph import graph_document
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.ids import RegionId, VertexId
from jobmanager.core.life.change import Change
from jobmanager.core.plan import spark_order
from jobmanager.core.plan.job_plan import plan_of


class Verdict(StrEnum):
    COMPATIBLE = "compatible"
    NEEDS_FLAG = "needs_flag"
    """State would be left behind: `allow_non_restored_state` says that this is meant."""
    IMPOSSIBLE = "impossible"


class Fate(StrEnum):
    KEPT = "kept"
    LOST = "lost"
    GAINED = "gained"
    """It starts empty."""


@dataclass(frozen=True, slots=True)
class FieldChange:
    vertex: str | None
    """None: of the graph itself."""
    field: str
    """Empty: the whole vertex came or went."""
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class StateFate:
    region: RegionId
    vertex: VertexId | None
    """None: what the region itself keeps, the offsets of its sources."""
    fate: Fate


@dataclass(frozen=True, slots=True)
class SparkVerdict:
    """What Spark said when it was given the new graph and a copy of the state."""

    region: str
    accepted: bool
    error: str | None = None


@dataclass(frozen=True, slots=True)
class UpgradePlan:
    verdict: Verdict
    reasons: Sequence[str]
    """Why it is not simply compatible."""
    changes: Sequence[FieldChange]
    states: Sequence[StateFate]
    spark: Sequence[SparkVerdict]
    """Empty: it was not asked."""


def plan_upgrade(change: Change, spark: Sequence[SparkVerdict] = ()) -> UpgradePlan:
    before = graph_document.parse(change.before.document)
    after = graph_document.parse(change.after.document)
    states = list(_fates(before, after))
    impossible = [*_obstacles(before, after), *_refusals(spark)]
    losses = list(_losses(states))
    if impossible:
        verdict = Verdict.IMPOSSIBLE
    elif losses and not change.allow_non_restored_state:
        verdict = Verdict.NEEDS_FLAG
    else:
        verdict = Verdict.COMPATIBLE
    differences = list(_differences(change.before.document, change.after.document))
    return UpgradePlan(verdict, impossible + losses, differences, states, spark)


def _fates(before: JobGraph, after: JobGraph) -> Iterator[StateFate]:
    old = {region.id: region for region in plan_of(before).regions}
    new = {region.id: region for region in plan_of(after).regions}
    for region in {**old, **new}:
        if region not in new:
            yield StateFate(region, None, Fate.LOST)
        if region not in old:
            yield StateFate(region, None, Fate.GAINED)
        had = old[region].keyed if region in old else ()
        has = new[region].keyed if region in new else ()
        for vertex in dict.fromkeys([*had, *has]):
            kept = Fate.KEPT if vertex in has else Fate.LOST
            yield StateFate(region, vertex, kept if vertex in had else Fate.GAINED)


def _losses(states: Sequence[StateFate]) -> Iterator[str]:
    for one in states:
        if one.fate is Fate.LOST:
            what = f"the state of vertex {one.vertex}" if one.vertex else "the offsets"
            yield (
                f"region {one.region}: {what} would be left behind; "
                "set allow_non_restored_state if that is meant"
            )


def _obstacles(before: JobGraph, after: JobGraph) -> Iterator[str]:
    if before.max_parallelism != after.max_parallelism:
        yield (
            f"max_parallelism is {before.max_parallelism} and would be {after.max_parallelism}: "
            "the number of key groups never changes"
        )
    shared = {r.id for r in plan_of(before).regions} & {r.id for r in plan_of(after).regions}
    for region in sorted(shared):
        read, reads = (spark_order.sources(g, VertexId(region)) for g in (before, after))
        if read != reads:
            yield (
                f"region {region} reads from {_names(read)} and would read from {_names(reads)}: "
                "Spark knows its sources by their order; give the new input a sink of its own"
            )
        had, has = (spark_order.keyed(g, VertexId(region)) for g in (before, after))
        if has and had != has:
            yield (
                f"region {region} has keyed state of {_names(had)} and would have {_names(has)}: "
                "Spark knows state by its order; give the new vertices a sink of their own"
            )


def _refusals(spark: Sequence[SparkVerdict]) -> Iterator[str]:
    for one in spark:
        if not one.accepted:
            yield f"region {one.region}: Spark refuses it: {one.error}"


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[FieldChange]:
    yield from _fields(None, _without_vertices(before), _without_vertices(after))
    old, new = _vertices(before), _vertices(after)
    for name in dict.fromkeys([*old, *new]):
        if name not in old or name not in new:
            yield FieldChange(name, "", old.get(name), new.get(name))
        else:
            yield from _fields(name, old[name], new[name])


def _fields(
    vertex: str | None, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[FieldChange]:
    for name in dict.fromkeys([*before, *after]):
        if before.get(name) != after.get(name):
            yield FieldChange(vertex, name, before.get(name), after.get(name))


def _without_vertices(document: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != "vertices"}


def _vertices(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {str(vertex["id"]): vertex for vertex in document["vertices"]}


def _names(vertices: Sequence[str]) -> str:
    return ", ".join(vertices) or "nothing"
