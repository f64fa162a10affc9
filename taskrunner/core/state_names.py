"""The names of the states of Spark's stateful operators, and how to read each.

An aggregation and a `distinct` have one state, `default`, which is Spark's name for an unnamed
store. A join has one state for each side. An operator with state variables has one state for each
variable.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from jobmanager.core.ids import VertexId

_JOIN = "symmetricHashJoin"
_SIDES = ("left", "right")


@dataclass(frozen=True, slots=True)
class Store:
    """One row of Spark's metadata about its state."""

    operator: int
    operator_name: str
    name: str
    partitions: int
    properties: str | None
    """JSON; for an operator with state variables it has their names."""


@dataclass(frozen=True, slots=True)
class NamedState:
    vertex: VertexId
    name: str
    operator: int
    operator_name: str
    partitions: int
    options: Mapping[str, str]
    """For Spark's state reader."""
    column_family: str | None
    """The column family that holds the state, if the store has several."""


def named_states(stores: Sequence[Store], keyed: Sequence[VertexId]) -> list[NamedState]:
    """Every state, given the keyed vertex of each operator."""
    found: list[NamedState] = []
    for store in sorted(stores, key=lambda one: (one.operator, one.name)):
        if store.operator >= len(keyed):
            continue
        vertex = keyed[store.operator]
        # a vertex that is reached along two paths has its state twice
        path = list(keyed[: store.operator]).count(vertex) + 1
        for name, options, family in _names(store):
            shown = name if path == 1 else f"{name}-{path}"
            state = NamedState(
                vertex, shown, store.operator, store.operator_name, store.partitions, options,
                family,
            )  # fmt: skip
            if all((one.vertex, one.name) != (vertex, shown) for one in found):
                found.append(state)
    return found


def _names(store: Store) -> Iterator[tuple[str, dict[str, str], str | None]]:
    operator = {"operatorId": str(store.operator)}
    variables = _variables(store.properties)
    if store.operator_name == _JOIN:
        for side in _SIDES:
            yield side, {**operator, "joinSide": side}, None
    elif variables:
        for variable in variables:
            yield variable, {**operator, "stateVarName": variable}, variable
    else:
        yield store.name, {**operator, "storeName": store.name}, None


def _variables(properties: str | None) -> list[str]:
    """The names of state variables, without Spark's internal ones, which begin with `$`."""
    if not properties:
        return []
    document = json.loads(properties)
    variables = document.get("stateVariables", []) if isinstance(document, dict) else []
    names = [one["stateName"] for one in variables if isinstance(one, dict)]
    return [name for name in names if not name.startswith("$")]
