"""What every vertex of a job graph is, and what it says of itself.

An operator is a dataclass that inherits from `Vertex`. It overrides what is true of it; what it
leaves out is what holds for most operators. The plan, the checks of a graph and the runner ask
these questions and know no operator by name.

When a graph is read, each vertex goes through three steps, after the shape of the graph was
found sound:

1. `with_static_inputs` (only in a stream): which inputs are read as a whole;
2. `completed`: what a document may leave to the vertices behind, such as the time column;
3. `check`, `ship_fault` and `column_faults`: what cannot work where the vertex stands.

Methods of a base class are called as `Vertex.check(self, …)`: a dataclass with slots is made
anew by its decorator, and `super()` does not find it (Python 3.11).
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
    """Of two that are told apart, the left one first."""
    parallelism: int | None = field(default=None, kw_only=True)

    # State, and when results come out of a stream.

    @property
    def is_keyed(self) -> bool:
        """Whether it keeps state by key in a stream."""
        return False

    @property
    def state_layout(self) -> Layout:
        """Where Spark keeps the state of a keyed vertex."""
        return Layout.HASHED

    @property
    def spark_state_operators(self) -> int:
        """How many of Spark's stateful operators a keyed vertex is, one after the other."""
        return 1

    @property
    def emits_updates(self) -> bool:
        """Whether its results change, and come out again when they did."""
        return False

    @property
    def emits_windows(self) -> bool:
        """Whether its rows are results of windows: each comes out once, without a watermark."""
        return False

    @property
    def has_complete_result(self) -> bool:
        """Whether a sink can be given the whole result with each batch."""
        return self.emits_updates

    @property
    def waits_for_time(self) -> bool:
        """Whether rows may come out when the watermark, or the time of day, moves and none come."""
        return False

    @property
    def goes_by_the_clock(self) -> bool:
        """Whether it may emit when the time of day moves."""
        return False

    @property
    def waits_for_partner(self) -> bool:
        """Whether rows without a partner come out when the watermark says that none can come."""
        return False

    @property
    def runs_beside_updates(self) -> bool:
        """Whether Spark can run it in one streaming query with a vertex that emits updates."""
        return True

    @property
    def refuses_update_mode(self) -> str | None:
        """What Spark cannot give to a sink in update mode; None: update mode is possible."""
        return None

    @property
    def required_output_mode(self) -> "OutputMode | None":
        """The output mode that sinks after this vertex have; None: it follows from the rest."""
        return None

    # How its state is shown to users.

    @property
    def state_key_names(self) -> tuple[str, ...] | None:
        """The columns of the state's key, in order, where Spark gives them names of its own."""
        return None

    @property
    def is_grouped_without_key(self) -> bool:
        """Whether it groups all rows as one, so that Spark's key is nothing to show."""
        return False

    @property
    def results(self) -> Mapping[str, str]:
        """The aggregates that its state is kept for, by column."""
        return {}

    @property
    def window_size(self) -> timedelta | None:
        """The length that all its windows have."""
        return None

    # Inputs, and vertices inside.

    @property
    def static_inputs(self) -> tuple[VertexId, ...]:
        """The inputs that are read as a whole beside a stream."""
        return ()

    @property
    def streamed_inputs(self) -> tuple[Input, ...]:
        """The inputs without the static ones."""
        static = self.static_inputs
        return tuple(one for one in self.inputs if one.vertex not in static)

    @property
    def inner_vertices(self) -> tuple["Vertex", ...]:
        """The vertices in the body of a loop."""
        return ()

    @property
    def fault_in_a_loop(self) -> tuple[str, str] | None:
        """Field and message, if the vertex cannot be in the body of a loop."""
        return None

    def has_side(self, side: Side) -> bool:
        """Whether other vertices can take this side of its output."""
        return False

    def ship_of(self, one: Input) -> Ship:
        """How the rows of an input travel: as it says, else as follows from the operator."""
        return one.ship or self.default_ship(one)

    def default_ship(self, one: Input) -> Ship:
        """How the rows of an input travel where its document does not say it."""
        if self.is_keyed:
            return Ship.HASH
        return Ship.FORWARD if self.parallelism is None else Ship.REBALANCE

    # Columns and Spark SQL.

    def columns_out(self, inputs: Sequence[Columns | None]) -> Columns | None:
        """The columns of its rows, in their order; None: only Spark can tell."""
        return None

    def expressions(self) -> Iterator[tuple[str, str]]:
        """Field and expression of the Spark SQL in it."""
        yield from ()

    def places(self) -> Iterator[tuple[str, str]]:
        """Field, and the path or URI in it: everything that the vertex reads from or writes to."""
        yield from ()

    def needed_columns(self) -> Iterator[tuple[str, str]]:
        """Field, and the name of a column that has to be in the first input."""
        yield from ()

    # Its place in a graph.

    def with_static_inputs(self, graph: "GraphView", faults: Faults) -> Self:
        """The vertex, knowing which of its inputs are read as a whole beside a stream."""
        return self

    def completed(self, graph: "GraphView", faults: Faults) -> Self:
        """The vertex, with what its document leaves to the vertices around it."""
        return self

    def check(self, graph: "GraphView", faults: Faults) -> None:
        """Notes what cannot work with the vertices that are behind this one."""

    def column_faults(self, inputs: Sequence[Columns]) -> Iterator[tuple[str, str]]:
        """Field and message, where the columns of all inputs are known."""
        if inputs:
            yield from missing_columns(self.needed_columns(), inputs[0])

    def ship_fault(self, position: int, mode: "Mode") -> str | None:
        """Why rows cannot travel to the input at `position` as it says."""
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
        """Why the rows of an input cannot be sent to every subtask."""
        return "only the static side of a join can be sent to every subtask"


@dataclass(frozen=True, slots=True)
class UnknownOperator(Vertex):
    """Stands where a document names an operator that there is not; its graph is refused."""

    op: ClassVar[str] = "vertex"


def named(field: str, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each name with the field that it stands in."""
    return ((field, name) for name in names)


def named_expressions(field: str, texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The expressions of a mapping `column: expression`, each with its field."""
    return ((f"{field}.{column}", text) for column, text in texts.items())
