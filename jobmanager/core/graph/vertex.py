"""The base class of all vertices of a job graph.

An operator is a dataclass that inherits from `Vertex`. It overrides the properties in which it
differs from most operators. The plan, the checks of a graph and the runner use these properties and
methods, and know no operator by name.

When a graph is read, each vertex goes through three steps, after the shape of the graph was
checked:

1. `with_static_inputs` (only in a stream): which inputs are read as a whole;
2. `completed`: fields that a document may leave out because upstream vertices determine them,
   such as the time column;
3. `check`, `ship_fault` and `column_faults`: faults of the vertex at its place in the graph.

Methods of the base class are called as `Vertex.check(self, …)`: the decorator of a dataclass with
slots makes a new class, and `super()` does not find it (Python 3.11).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar, Self

from jobmanager.core.graph.columns import Columns, missing_columns
from jobmanager.core.graph.document_fields import Faults
from jobmanager.core.graph.inputs import Input, Ship, Side
from jobmanager.core.graph.state_layout import Layout
from jobmanager.core.ids import VertexId

if TYPE_CHECKING:
    from jobmanager.core.graph.graph_view import GraphView
    from jobmanager.core.graph.job_graph import Mode
    from jobmanager.core.graph.output_mode import OutputMode


@dataclass(frozen=True, slots=True)
class Vertex:
    op: ClassVar[str]
    """The operator's name in the job-graph language."""

    id: VertexId
    inputs: tuple[Input, ...]
    """The inputs; where left and right differ, the left input is first."""
    parallelism: int | None = field(default=None, kw_only=True)

    # State, and when results come out of a stream.

    @property
    def is_keyed(self) -> bool:
        """Whether the vertex keeps state by key in a stream."""
        return False

    @property
    def state_layout(self) -> Layout:
        """Where Spark keeps the state of a keyed vertex."""
        return Layout.HASHED

    @property
    def spark_state_operators(self) -> int:
        """The number of stateful Spark operators, one after the other, that a keyed vertex
        becomes.
        """
        return 1

    @property
    def emits_updates(self) -> bool:
        """Whether results can change, and are emitted again when they do."""
        return False

    @property
    def emits_windows(self) -> bool:
        """Whether rows are results of windows: each is emitted once, without a watermark."""
        return False

    @property
    def has_complete_result(self) -> bool:
        """Whether each batch can give the whole result to a sink."""
        return self.emits_updates

    @property
    def waits_for_time(self) -> bool:
        """Whether rows may be emitted without input, because the watermark or the time of day
        moved.
        """
        return False

    @property
    def goes_by_the_clock(self) -> bool:
        """Whether rows may be emitted because the time of day moved."""
        return False

    @property
    def waits_for_partner(self) -> bool:
        """Whether rows without a partner are emitted once the watermark rules out a partner."""
        return False

    @property
    def runs_beside_updates(self) -> bool:
        """Whether Spark can run the vertex in one streaming query with a vertex that emits
        updates.
        """
        return True

    @property
    def refuses_update_mode(self) -> str | None:
        """What Spark cannot write to a sink in update mode; None: update mode is possible."""
        return None

    @property
    def required_output_mode(self) -> "OutputMode | None":
        """The output mode of sinks after this vertex; None: other vertices determine it."""
        return None

    def real_time_faults(self) -> Iterator[tuple[str, str]]:
        """Return why Spark's real-time mode cannot run the vertex in a stream, as field and
        message. An operator that it can run overrides this.
        """
        yield "op", f"Spark's real-time mode cannot run {self.op}"

    # How the state is shown to users.

    @property
    def state_key_names(self) -> tuple[str, ...] | None:
        """The columns of the state's key, in order, if Spark has its own names for them."""
        return None

    @property
    def is_grouped_without_key(self) -> bool:
        """Whether all rows are one group, so that there is no key to show."""
        return False

    @property
    def results(self) -> Mapping[str, str]:
        """The aggregates that the state is kept for, by column."""
        return {}

    @property
    def window_size(self) -> timedelta | None:
        """The length of all windows of the vertex."""
        return None

    # Inputs, and vertices inside.

    @property
    def static_inputs(self) -> tuple[VertexId, ...]:
        """The inputs that are read as a whole beside a stream."""
        return ()

    @property
    def streamed_inputs(self) -> tuple[Input, ...]:
        """The inputs that are not static."""
        static = self.static_inputs
        return tuple(one for one in self.inputs if one.vertex not in static)

    @property
    def inner_vertices(self) -> tuple["Vertex", ...]:
        """The vertices in the body of a loop."""
        return ()

    @property
    def fault_in_a_loop(self) -> tuple[str, str] | None:
        """Field and message, if the vertex is not allowed in the body of a loop."""
        return None

    def has_side(self, side: Side) -> bool:
        """Whether the vertex has this side, as an input for other vertices."""
        return False

    def ship_of(self, one: Input) -> Ship:
        """Return the ship strategy of an input: its own, or else the operator's default."""
        return one.ship or self.default_ship(one)

    def default_ship(self, one: Input) -> Ship:
        """Return the ship strategy of an input that does not name one."""
        if self.is_keyed:
            return Ship.HASH
        return Ship.FORWARD if self.parallelism is None else Ship.REBALANCE

    # Columns and Spark SQL.

    def columns_out(self, inputs: Sequence[Columns | None]) -> Columns | None:
        """Return the output columns, in order; None: only Spark can tell."""
        return None

    def expressions(self) -> Iterator[tuple[str, str]]:
        """Return the Spark SQL expressions of the vertex, each with its field."""
        yield from ()

    def places(self) -> Iterator[tuple[str, str]]:
        """Field, and the path or URI in it: everything that the vertex reads from or writes to."""
        yield from ()

    def needed_columns(self) -> Iterator[tuple[str, str]]:
        """Return the columns that the first input must have, each with the field that names it."""
        yield from ()

    # The vertex's place in a graph.

    def with_static_inputs(self, graph: "GraphView", faults: Faults) -> Self:
        """Return the vertex with its static inputs determined."""
        return self

    def completed(self, graph: "GraphView", faults: Faults) -> Self:
        """Return the vertex with the fields that other vertices determine."""
        return self

    def check(self, graph: "GraphView", faults: Faults) -> None:
        """Note faults that concern this vertex and its upstream vertices."""

    def column_faults(self, inputs: Sequence[Columns]) -> Iterator[tuple[str, str]]:
        """Return faults about columns, as field and message; the columns of all inputs are
        known.
        """
        if inputs:
            yield from missing_columns(self.needed_columns(), inputs[0])

    def ship_fault(self, position: int, mode: "Mode") -> str | None:
        """Return why the input at `position` cannot have its ship strategy."""
        one = self.inputs[position]
        if one.ship is Ship.BROADCAST:
            return self.broadcast_fault(position, mode)
        if self.is_keyed:
            if one.ship is Ship.HASH:
                return None
            return f"a {self.op} takes its rows by hash of the key: leave ship out"
        if one.ship is Ship.HASH:
            return f"a {self.op} has no key to hash: take forward or rebalance"
        if one.ship is Ship.FORWARD and self.parallelism is not None:
            return "rows stay in their subtask: drop ship, or the vertex's own parallelism"
        return None

    def broadcast_fault(self, position: int, mode: "Mode") -> str | None:
        """Return why the rows of an input cannot be broadcast to every subtask."""
        return "only the static side of a join can be sent to every subtask"


@dataclass(frozen=True, slots=True)
class UnknownOperator(Vertex):
    """A placeholder for a vertex whose operator does not exist; its graph is refused."""

    op: ClassVar[str] = "vertex"


def named(field: str, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Pair each name with its field."""
    return ((field, name) for name in names)


def named_expressions(field: str, texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Pair each expression of a mapping `column: expression` with its field."""
    return ((f"{field}.{column}", text) for column, text in texts.items())
