"""The plan of an upgrade: what becomes of a job's state, known before anything stops.

`fit` decides whether state and graph fit; Spark is asked about the schema of each state, which only
Spark can check.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from jobmanager.core.graph import graph_document
from jobmanager.core.graph.schema_pins import registry_changes
from jobmanager.core.life.change import Change
from jobmanager.core.snapshots.fit import StateFate, fit, state_of_graph


class Verdict(StrEnum):
    COMPATIBLE = "compatible"
    NEEDS_FLAG = "needs_flag"
    """State would be dropped; `allow_non_restored_state` allows that."""
    IMPOSSIBLE = "impossible"


@dataclass(frozen=True, slots=True)
class FieldChange:
    vertex: str | None
    """None: the change is in the graph itself."""
    field: str
    """Empty: the whole vertex was added or removed."""
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class SparkVerdict:
    """What Spark answered when it tried the new graph with a copy of the state."""

    region: str
    accepted: bool
    error: str | None = None


@dataclass(frozen=True, slots=True)
class UpgradePlan:
    verdict: Verdict
    reasons: Sequence[str]
    """Why the verdict is not simply compatible."""
    changes: Sequence[FieldChange]
    states: Sequence[StateFate]
    spark: Sequence[SparkVerdict]
    """Empty: Spark was not asked."""
    needs_restart: bool = True
    """False: only `meta` changes, and the job runs on."""


def plan_upgrade(change: Change, spark: Sequence[SparkVerdict] = ()) -> UpgradePlan:
    before = graph_document.parse(change.before.document)
    after = graph_document.parse(change.after.document)
    found = fit(state_of_graph(before), after)
    impossible = [*(fault.message for fault in found.obstacles), *_refusals(spark)]
    losses = [fault.message for fault in found.losses]
    if impossible:
        verdict = Verdict.IMPOSSIBLE
    elif losses and not change.allow_non_restored_state:
        verdict = Verdict.NEEDS_FLAG
    else:
        verdict = Verdict.COMPATIBLE
    changed = list(differences(change.before.document, change.after.document))
    return UpgradePlan(
        verdict, impossible + losses, changed, found.fates, spark, change.needs_restart
    )


def _refusals(spark: Sequence[SparkVerdict]) -> Iterator[str]:
    for one in spark:
        if not one.accepted:
            yield f"region {one.region}: Spark refuses it: {one.error}"


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[FieldChange]:
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
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        if name == "registry" and isinstance(old, Mapping) and isinstance(new, Mapping):
            for field, was, now in registry_changes(old, new):
                yield FieldChange(vertex, field, was, now)
        else:
            yield FieldChange(vertex, name, old, new)


def _without_vertices(document: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != "vertices"}


def _vertices(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {str(vertex["id"]): vertex for vertex in document["vertices"]}
