"""The operator `join`: of two streams, of a stream and a static side, or in a batch job."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from jobmanager.core.graph.columns import Columns, missing, no_column, shared
from jobmanager.core.graph.document_fields import Faults, Fields
from jobmanager.core.graph.inputs import Input, Ship
from jobmanager.core.graph.job_graph import Mode
from jobmanager.core.graph.operator_entry import Arity, Header, Operator
from jobmanager.core.graph.vertex import Vertex
from jobmanager.core.ids import VertexId

if TYPE_CHECKING:
    from jobmanager.core.graph.graph_view import GraphView


class JoinType(StrEnum):
    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    LEFT_SEMI = "left_semi"
    LEFT_ANTI = "left_anti"


OUTER = (JoinType.LEFT, JoinType.RIGHT, JoinType.FULL)
ONLY_LEFT = (JoinType.LEFT_SEMI, JoinType.LEFT_ANTI)
"""Types of joins whose result has only columns of the left side."""
_FOR_STATIC = {
    # by the side that is static: the types of joins that Spark supports
    "right": (JoinType.INNER, JoinType.LEFT, JoinType.LEFT_SEMI, JoinType.LEFT_ANTI),
    "left": (JoinType.INNER, JoinType.RIGHT),
}
_CAN_BE_SENT_WHOLE = {
    JoinType.INNER: (True, True),
    JoinType.LEFT: (False, True),
    JoinType.LEFT_SEMI: (False, True),
    JoinType.LEFT_ANTI: (False, True),
    JoinType.RIGHT: (True, False),
    JoinType.FULL: (False, False),
}
"""Whether a copy of the left and of the right side can go to every subtask."""
_SIDES = ("left", "right")


@dataclass(frozen=True, slots=True)
class Join(Vertex):
    op: ClassVar[str] = "join"
    type: JoinType
    on: tuple[str, ...]
    where: str | None
    """A condition instead of `on`."""
    within: timedelta | None
    """How far apart the two time columns may be."""
    static: VertexId | None = None
    """The static side: the input of a streaming job that is no stream, and is read as a whole in
    each batch.
    """

    @property
    def left(self) -> VertexId:
        return self.inputs[0].vertex

    @property
    def right(self) -> VertexId:
        return self.inputs[1].vertex

    @property
    def is_keyed(self) -> bool:
        return self.static is None

    @property
    def waits_for_partner(self) -> bool:
        return self.static is None and self.type in OUTER

    @property
    def waits_for_time(self) -> bool:
        return self.waits_for_partner

    @property
    def refuses_update_mode(self) -> str | None:
        return f"a {self.type} join" if self.waits_for_partner else None

    @property
    def state_key_names(self) -> tuple[str, ...] | None:
        return self.on

    @property
    def static_inputs(self) -> tuple[VertexId, ...]:
        return () if self.static is None else (self.static,)

    def columns_out(self, inputs: Sequence[Columns | None]) -> Columns | None:
        left, right = inputs
        if left is None or right is None:
            return None
        rest = [name for name in left if name not in self.on]
        if self.type not in ONLY_LEFT:
            rest += [name for name in right if name not in self.on]
        return (*self.on, *rest)

    def expressions(self) -> Iterator[tuple[str, str]]:
        if self.where is not None:
            yield "where", self.where

    def with_static_inputs(self, graph: "GraphView", faults: Faults) -> "Join":
        """Choose the static side: without a time bound the bounded side is static; if both are
        bounded, the side whose rows without a partner are not part of the result.
        """
        if self.within is not None or len(self.inputs) != 2:
            return self
        sides = [side for side in (self.right, self.left) if graph.is_static(side)]
        if not sides:
            return self
        static = self.left if len(sides) == 2 and self.type is JoinType.RIGHT else sides[0]
        return replace(self, static=static)

    def check(self, graph: "GraphView", faults: Faults) -> None:
        if self.within is not None:
            graph.need_watermarks(self.id, faults)
        if graph.mode is Mode.STREAMING:
            _check_type(self, faults)
            _check_behind(self, graph, faults)
        if self.parallelism and self.is_keyed:
            message = "a keyed vertex always has the job's parallelism: leave it out"
            faults.add(self.id, "parallelism", message)

    def real_time_faults(self) -> Iterator[tuple[str, str]]:
        if self.static is None:
            yield (
                "op",
                "Spark's real-time mode cannot join two streams: only a stream with a static side",
            )
        elif self._is_shuffled_to_static:
            yield "inputs", "in real-time mode the static side is sent by broadcast, not by hash"
        if not self.on:
            yield (
                "where",
                (
                    "Spark's real-time mode joins by equal columns: name them in `on`, and put the "
                    "rest of the condition into a filter"
                ),
            )

    def column_faults(self, inputs: Sequence[Columns]) -> Iterator[tuple[str, str]]:
        left, right = inputs
        for side, columns in ((self.left, left), (self.right, right)):
            for name in missing(self.on, columns):
                yield "on", f"of {side!r}: {no_column(name, columns)}"
        if self.type not in ONLY_LEFT:
            rest = [name for name in left if not shared([name], self.on)]
            for name in shared(rest, right):
                yield "inputs", on_both_sides(name, self.left, self.right)

    def default_ship(self, one: Input) -> Ship:
        if self.static is not None:
            ships = {side.vertex: side.ship or Ship.BROADCAST for side in self.inputs}
            if one.vertex == self.static or ships[self.static] is Ship.HASH:
                return ships[self.static]
        return Vertex.default_ship(self, one)

    def ship_fault(self, position: int, mode: Mode) -> str | None:
        one = self.inputs[position]
        if one.ship is not Ship.BROADCAST and one.vertex == self.static:
            is_hash = one.ship is Ship.HASH
            return None if is_hash else "a static side is sent by broadcast, or by hash"
        if one.ship is Ship.HASH and self._is_shuffled_to_static:
            return None
        return Vertex.ship_fault(self, position, mode)

    @property
    def _is_shuffled_to_static(self) -> bool:
        """Whether a stream is shuffled to its static side, which is allowed."""
        return any(one.vertex == self.static and one.ship is Ship.HASH for one in self.inputs)

    def broadcast_fault(self, position: int, mode: Mode) -> str | None:
        if self.static is None and mode is Mode.STREAMING:
            return "a stream cannot be sent to every subtask: only the static side of a join can"
        if self.static is None:
            if _CAN_BE_SENT_WHOLE[self.type][position]:
                return None
            return f"in a {self.type} join this side cannot be sent to every subtask"
        if self.inputs[position].vertex == self.static:
            return None
        return Vertex.broadcast_fault(self, position, mode)


def on_both_sides(column: str, left: VertexId, right: VertexId) -> str:
    return f"column {column!r} is in {left!r} and in {right!r}: rename or drop it in a map before"


def _check_type(join: Join, faults: Faults) -> None:
    """Note types of joins that Spark does not support in a stream."""
    if join.static is not None:
        side = "right" if join.static == join.right else "left"
        if join.type not in _FOR_STATIC[side]:
            fitting = ", ".join(_FOR_STATIC[side])
            faults.add(
                join.id,
                "type",
                f"{join.static!r} is static, so the {side} side's rows without a partner are not "
                f"known before the stream ends: use one of {fitting}",
            )
    elif join.type is JoinType.LEFT_ANTI:
        faults.add(join.id, "type", "Spark has no left_anti join of two streams: use a left join")
    elif join.type is not JoinType.INNER and join.within is None:
        faults.add(
            join.id,
            "within",
            f"missing: a {join.type} join of two streams needs to know when no partner can come",
        )


def _check_behind(join: Join, graph: "GraphView", faults: Faults) -> None:
    """Note upstream vertices that cannot be joined: updates cannot be joined with a stream, and
    results of windows have no watermark.
    """
    for one in graph.behind(join.id):
        if one.emits_updates and join.is_keyed:
            faults.add(
                join.id,
                "inputs",
                f"Spark cannot join the updates of {one.id!r} with a stream in one query",
            )
        elif join.within and one.emits_windows:
            faults.add(
                join.id,
                "within",
                f"the results of {one.id!r} carry no watermark: leave this field out",
            )


def _read(fields: Fields, header: Header) -> Join:
    kind = fields.choice("type", JoinType, JoinType.INNER)
    on, where = fields.names("on"), fields.text("where", "") or None
    if bool(on) == bool(where):
        fields.fault(
            "on", "a join needs the columns of `on`, or a condition in `where`: one of them"
        )
    within = fields.duration("within", zero=True) if fields.has("within") else None
    inputs = left_and_right(fields, header.inputs, "an input of this join")
    return Join(header.id, inputs, kind, on, where, within)


def left_and_right(fields: Fields, inputs: tuple[Input, ...], what: str) -> tuple[Input, ...]:
    """Return the two inputs, the left input first, by the fields `left` and `right`. `what`
    describes what each must be. If there are not two inputs, they are returned unchanged.
    """
    by_id = {one.vertex: one for one in inputs}
    if len(by_id) != 2:
        fields.raw("left"), fields.raw("right")
        return inputs
    names = list(by_id)
    left, right = (
        VertexId(fields.text(side, name)) for side, name in zip(_SIDES, names, strict=True)
    )
    for side, name in zip(_SIDES, (left, right), strict=True):
        if name not in by_id:
            fields.fault(side, f"{name!r} is not {what}: use one of {', '.join(names)}")
            return inputs
    if left == right:
        fields.fault("right", f"both sides are {left!r}: name the other input")
        return inputs
    return by_id[left], by_id[right]


OPERATORS = (Operator("join", _read, Arity.TWO),)
