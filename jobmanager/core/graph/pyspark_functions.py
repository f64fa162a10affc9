"""The operator `spark`: any PySpark code, as a function of DataFrames."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from jobmanager.core.graph.columns import Columns, in_schema
from jobmanager.core.graph.document_fields import Fields
from jobmanager.core.graph.function_fields import read_function
from jobmanager.core.graph.job_graph import Mode
from jobmanager.core.graph.operator_entry import Arity, Header, Operator
from jobmanager.core.graph.state_kinds import UPDATING, StateKind, layout_of_kinds, read_state
from jobmanager.core.graph.state_layout import Layout
from jobmanager.core.graph.vertex import Vertex


@dataclass(frozen=True, slots=True)
class Spark(Vertex):
    """A PySpark function: `(spark, *inputs) -> DataFrame`."""

    op: ClassVar[str] = "spark"
    function: str
    output: str
    """The output columns, as Spark DDL."""
    state: tuple[StateKind, ...] = ()
    """The function's stateful Spark operators, from its output backwards."""
    keeps_state: bool = False
    """Whether there are stateful operators and the job is a stream: a batch job keeps no state."""

    def real_time_faults(self) -> Iterator[tuple[str, str]]:
        yield (
            "op",
            (
                "what a PySpark function does is not known before Spark plans it: write map, "
                "filter, aggregate or sql, which Spark's real-time mode can run"
            ),
        )

    @property
    def is_keyed(self) -> bool:
        return self.keeps_state

    @property
    def state_layout(self) -> Layout:
        return layout_of_kinds(self.state)

    @property
    def spark_state_operators(self) -> int:
        return len(self.state)

    @property
    def emits_updates(self) -> bool:
        return not UPDATING.isdisjoint(self.state)

    @property
    def waits_for_time(self) -> bool:
        return self.keeps_state

    def columns_out(self, inputs: Sequence[Columns | None]) -> Columns | None:
        return in_schema(self.output)


def _read(fields: Fields, header: Header) -> Spark:
    function, output, state = read_function(fields), fields.text("output"), read_state(fields)
    keeps_state = bool(state) and header.mode is Mode.STREAMING
    return Spark(header.id, header.inputs, function, output, state, keeps_state)


OPERATORS = (Operator("spark", _read, Arity.SOME),)
