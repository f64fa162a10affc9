"""Ship strategies that a vertex cannot honour: whatever is accepted shows in Spark's plan."""

from collections.abc import Sequence

from jobmanager.core.graph.document_fields import Faults
from jobmanager.core.graph.inputs import Input, Ship
from jobmanager.core.graph.job_graph import Mode, Vertex, op_of
from jobmanager.core.graph.relational_vertices import Join, JoinType, Sql
from jobmanager.core.graph.traits import is_keyed

_CAN_BE_SENT_WHOLE = {
    JoinType.INNER: (True, True),
    JoinType.LEFT: (False, True),
    JoinType.LEFT_SEMI: (False, True),
    JoinType.LEFT_ANTI: (False, True),
    JoinType.RIGHT: (True, False),
    JoinType.FULL: (False, False),
}
"""Whether a copy of the left and of the right side can go to every subtask."""


def check(vertices: Sequence[Vertex], faults: Faults, mode: Mode) -> None:
    for vertex in vertices:
        for position, one in enumerate(vertex.inputs):
            if one.ship is not None and (message := _fault(vertex, one, position, mode)):
                faults.add(vertex.id, "inputs", f"ship {one.ship} from {one.vertex!r}: {message}")


def _fault(vertex: Vertex, one: Input, position: int, mode: Mode) -> str | None:
    if one.ship is Ship.BROADCAST:
        return _broadcast_fault(vertex, one, position, mode)
    if isinstance(vertex, Join) and one.vertex == vertex.static:
        return None if one.ship is Ship.HASH else "a static side is sent by broadcast, or by hash"
    if is_keyed(vertex):
        if one.ship is Ship.HASH:
            return None
        return f"a {op_of(vertex)} takes its rows by hash of the key: leave ship out"
    if one.ship is Ship.HASH and not _joins_by_hash(vertex):
        return f"a {op_of(vertex)} has no key to hash: take forward or rebalance"
    if one.ship is Ship.FORWARD and vertex.parallelism is not None:
        return "rows stay in their subtask, so the vertex has no parallelism of its own: drop one"
    return None


def _broadcast_fault(vertex: Vertex, one: Input, position: int, mode: Mode) -> str | None:
    match vertex:
        case Join(static=None) if mode is Mode.STREAMING:
            return "a stream cannot be sent to every subtask: only the static side of a join can"
        case Join(static=None):
            if _CAN_BE_SENT_WHOLE[vertex.type][position]:
                return None
            return f"in a {vertex.type} join this side cannot be sent to every subtask"
        case Join(static=static) if static == one.vertex:
            return None
        case Sql() if mode is Mode.BATCH or one.vertex in vertex.static:
            return None
        case _:
            return "only the static side of a join can be sent to every subtask"


def _joins_by_hash(vertex: Vertex) -> bool:
    """A stream may be shuffled to meet its static side."""
    return isinstance(vertex, Join) and any(
        one.vertex == vertex.static and one.ship is Ship.HASH for one in vertex.inputs
    )
