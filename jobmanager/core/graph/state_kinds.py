"""What state a user's PySpark keeps, as its graph declares it.

What state such code keeps only Spark can tell, and the plan must know it before a barrier is
sent. So the graph declares it, and the runner compares that with what Spark has before the
query starts.
"""

from enum import StrEnum

from jobmanager.core.graph.document_fields import Fields
from jobmanager.core.graph.state_layout import Layout


class StateKind(StrEnum):
    """One of Spark's stateful operators, as far as the plan has to know it."""

    AGGREGATE = "aggregate"
    """By key: it emits the keys that changed."""
    TOTAL = "total"
    """The same without a key."""
    WINDOW = "window"
    """By window, or another column with a watermark: it emits a group once."""
    DISTINCT = "distinct"
    JOIN = "join"
    """Of two streams."""
    GROUPS = "groups"
    """A function with state for each key."""
    LIMIT = "limit"
    """So many rows, and no more."""


_SINGLE = frozenset([StateKind.TOTAL, StateKind.LIMIT])
"""Those that Spark keeps in one partition, whatever the parallelism."""
UPDATING = frozenset([StateKind.AGGREGATE, StateKind.TOTAL])


def layout_of_kinds(state: tuple[StateKind, ...]) -> Layout:
    return Layout.SINGLE if _SINGLE.issuperset(state) else Layout.HASHED


def read_state(fields: Fields) -> tuple[StateKind, ...]:
    """The field `state`."""
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
