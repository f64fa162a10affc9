"""The kinds of state that a user's PySpark keeps, as declared in the graph.

Only Spark can tell which state such code keeps, and the plan must know before a barrier is sent.
So the graph declares it, and the runner compares the declaration with Spark's plan before the
query starts.
"""

from enum import StrEnum

from jobmanager.core.graph.document_fields import Fields
from jobmanager.core.graph.state_layout import Layout


class StateKind(StrEnum):
    """A stateful operator of Spark, as far as the plan has to know it."""

    AGGREGATE = "aggregate"
    """An aggregation by key: each batch emits the keys that changed."""
    TOTAL = "total"
    """An aggregation without a key."""
    WINDOW = "window"
    """An aggregation by window, or by another column with a watermark: each group is emitted
    once.
    """
    DISTINCT = "distinct"
    JOIN = "join"
    """Of two streams."""
    GROUPS = "groups"
    """A function with state for each key."""
    LIMIT = "limit"
    """A limit on the number of rows."""


_SINGLE = frozenset([StateKind.TOTAL, StateKind.LIMIT])
"""Kinds of state that Spark keeps in one partition, whatever the parallelism."""
UPDATING = frozenset([StateKind.AGGREGATE, StateKind.TOTAL])


def layout_of_kinds(state: tuple[StateKind, ...]) -> Layout:
    return Layout.SINGLE if _SINGLE.issuperset(state) else Layout.HASHED


def read_state(fields: Fields) -> tuple[StateKind, ...]:
    """Read the field `state`."""
    value = fields.raw("state")
    listed = value if isinstance(value, list) else [] if value is None else [value]
    known = [one for one in listed if one in set(StateKind)]
    for one in listed:
        if one not in known:
            fields.fault("state", f"{one!r} is not one of {', '.join(StateKind)}")
    state = tuple(StateKind(one) for one in known)
    if _SINGLE.intersection(state) and not _SINGLE.issuperset(state):
        fields.fault(
            "state",
            f"{' and '.join(state)}: state of one partition and state of many cannot be in the "
            "same vertex: split the vertex in two",
        )
    return state
