"""The operator `sql`: a query over its inputs, which are tables named by vertex ids."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from jobmanager.core.graph import sql_text
from jobmanager.core.graph.document_fields import Faults, Fields
from jobmanager.core.graph.job_graph import Mode
from jobmanager.core.graph.operator_entry import Arity, Header, Operator
from jobmanager.core.graph.sql_text import SqlState
from jobmanager.core.graph.state_layout import Layout
from jobmanager.core.graph.vertex import Vertex
from jobmanager.core.ids import VertexId

if TYPE_CHECKING:
    from jobmanager.core.graph.graph_view import GraphView


@dataclass(frozen=True, slots=True)
class Sql(Vertex):
    op: ClassVar[str] = "sql"
    query: str
    state: SqlState = SqlState.NONE
    static: tuple[VertexId, ...] = ()
    """The inputs that are not streams in a streaming job."""

    @property
    def is_keyed(self) -> bool:
        return self.state is not SqlState.NONE

    @property
    def state_layout(self) -> Layout:
        return Layout.SINGLE if self.state is SqlState.TOTAL else Layout.HASHED

    @property
    def emits_updates(self) -> bool:
        return self.state in (SqlState.AGGREGATE, SqlState.TOTAL)

    @property
    def has_complete_result(self) -> bool:
        return self.emits_updates or self.state is SqlState.WINDOW

    @property
    def waits_for_time(self) -> bool:
        return self.state in (SqlState.WINDOW, SqlState.JOIN)

    @property
    def static_inputs(self) -> tuple[VertexId, ...]:
        return self.static

    def real_time_faults(self) -> Iterator[tuple[str, str]]:
        if self.state in (SqlState.WINDOW, SqlState.JOIN):
            what = "windows that emit once" if self.state is SqlState.WINDOW else "joined streams"
            yield "query", f"Spark's real-time mode has no {what}: aggregate by key, or filter"
        if self.static:
            yield (
                "inputs",
                (
                    f"{self.static[0]!r} is static: in real-time mode join it in a join vertex, "
                    "which sends it by broadcast"
                ),
            )

    def with_static_inputs(self, graph: "GraphView", faults: Faults) -> "Sql":
        inputs = [one.vertex for one in self.inputs]
        static = [one for one in inputs if graph.is_static(one)]
        if len(static) == len(inputs):
            static = static[1:]
        try:
            state = sql_text.state_of(self.query, len(inputs) - len(static))
        except sql_text.TooMuch as error:
            faults.add(self.id, "query", str(error))
            state = SqlState.NONE
        return replace(self, state=state, static=tuple(static))

    def check(self, graph: "GraphView", faults: Faults) -> None:
        if self.state is SqlState.WINDOW:
            graph.need_watermarks(self.id, faults)
        if self.parallelism and self.is_keyed:
            message = "a keyed vertex always has the job's parallelism: leave it out"
            faults.add(self.id, "parallelism", message)

    def broadcast_fault(self, position: int, mode: Mode) -> str | None:
        if mode is Mode.BATCH or self.inputs[position].vertex in self.static:
            return None
        return Vertex.broadcast_fault(self, position, mode)


def _read(fields: Fields, header: Header) -> Sql:
    return Sql(header.id, header.inputs, fields.text("query"))


OPERATORS = (Operator("sql", _read, Arity.SOME),)
