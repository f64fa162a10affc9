"""Finds the state and the sources of a frame in Spark's analysis, before any query starts.

Spark numbers its stateful operators and its sources in pre-order from the sink. The logical plan
is traversed here in the same order, so that the state of user code can be compared with the job's
plan.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from jobmanager.core.graph.state_kinds import StateKind

_WATERMARK = "spark.watermarkDelayMs"
_KINDS = {
    "Deduplicate": StateKind.DISTINCT,
    "DeduplicateWithinWatermark": StateKind.DISTINCT,
    "FlatMapGroupsWithState": StateKind.GROUPS,
    "FlatMapGroupsInPandasWithState": StateKind.GROUPS,
    "TransformWithState": StateKind.GROUPS,
    "TransformWithStateInPandas": StateKind.GROUPS,
    "TransformWithStateInPySpark": StateKind.GROUPS,
    "GlobalLimit": StateKind.LIMIT,
}


@dataclass(frozen=True, slots=True)
class FoundStates:
    """The state and sources of a plan, in the order in which Spark numbers them."""

    state: tuple[StateKind, ...]
    """The state outside the inputs."""
    sources: tuple[str, ...]
    """A description of each stream that is read outside the inputs."""
    inputs: tuple[int, ...]
    """The numbers of the inputs that are used."""
    state_after_input: bool
    """Whether some of the state comes after an input that has state of its own."""


def look(frame: DataFrame, inputs: Sequence[DataFrame] = ()) -> FoundStates:
    """Examines the plan of `frame`, down to the plans of `inputs`."""
    plans = [_plan(one) for one in inputs]
    stateful = [bool(look(one).state) for one in inputs]
    state: list[StateKind] = []
    sources: list[str] = []
    used: list[int] = []
    is_after = False
    for node in _walk(_plan(frame), plans, used):
        if kind := _kind(node):
            is_after = is_after or any(stateful[one] for one in used)
            state.append(kind)
        if node.children().isEmpty():
            sources.append(" ".join(str(node.simpleString(200)).split()))
    return FoundStates(tuple(state), tuple(sources), tuple(used), is_after)


def _plan(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()


def _walk(node: Any, stops: Sequence[Any], used: list[int]) -> Iterator[Any]:
    """The streaming nodes in pre-order. A node in `stops` is noted, but not descended into."""
    if not node.isStreaming():
        return
    for number, stop in enumerate(stops):
        if node.equals(stop):
            used.append(number)
            return
    yield node
    children = node.children()
    for position in range(children.size()):
        yield from _walk(children.apply(position), stops, used)


def _kind(node: Any) -> StateKind | None:
    name = str(node.nodeName())
    if name == "Aggregate":
        return _aggregation(node.groupingExpressions())
    if name == "Distinct":
        return StateKind.AGGREGATE
    if name == "Join":
        both = node.left().isStreaming() and node.right().isStreaming()
        return StateKind.JOIN if both else None
    return _KINDS.get(name)


def _aggregation(grouping: Any) -> StateKind:
    if grouping.isEmpty():
        return StateKind.TOTAL
    for position in range(grouping.size()):
        references = grouping.apply(position).references().toSeq()
        for number in range(references.size()):
            if references.apply(number).metadata().contains(_WATERMARK):
                return StateKind.WINDOW
    return StateKind.AGGREGATE
