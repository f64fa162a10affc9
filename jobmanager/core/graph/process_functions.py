"""Operators that run a user's Python function: `process`, `cogroup`, `python`, and `reduce`
where it has a function.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from jobmanager.core.graph.clocks import Clock
from jobmanager.core.graph.columns import Columns, in_schema
from jobmanager.core.graph.document_fields import Faults, Fields
from jobmanager.core.graph.function_fields import read_function, read_output
from jobmanager.core.graph.joins import left_and_right
from jobmanager.core.graph.operator_entry import Arity, Header, Operator
from jobmanager.core.graph.state_layout import Layout
from jobmanager.core.graph.vertex import Vertex, named

if TYPE_CHECKING:
    from jobmanager.core.graph.graph_view import GraphView


@dataclass(frozen=True, slots=True)
class KeyedFunction(Vertex):
    """A function that is called once for a key group."""

    key: tuple[str, ...]
    function: str
    """`module:name`."""

    @property
    def is_keyed(self) -> bool:
        return True

    @property
    def state_layout(self) -> Layout:
        return Layout.GROUPED

    @property
    def runs_beside_updates(self) -> bool:
        return False

    def real_time_faults(self) -> Iterator[tuple[str, str]]:
        yield "function", "Spark's real-time mode runs no state of Python functions"

    def needed_columns(self) -> Iterator[tuple[str, str]]:
        yield from named("key", self.key)


@dataclass(frozen=True, slots=True)
class Process(KeyedFunction):
    op: ClassVar[str] = "process"
    output: str
    """Spark DDL."""
    time: Clock
    time_column: str | None = None
    """The watermark column; None: the vertex does not use event time."""

    @property
    def waits_for_time(self) -> bool:
        return self.time is not Clock.NONE

    @property
    def goes_by_the_clock(self) -> bool:
        return self.time is Clock.PROCESSING

    def columns_out(self, inputs: Sequence[Columns | None]) -> Columns | None:
        return in_schema(self.output)

    def completed(self, graph: "GraphView", faults: Faults) -> "Process":
        """Return the vertex with its time column: the watermark column of the sources."""
        if self.time is not Clock.EVENT:
            return self
        sources = graph.sources(self.id)
        columns = sorted({one.watermark.column for one in sources if one.watermark})
        for source in sources:
            if source.watermark is None:
                faults.add(
                    source.id,
                    "watermark",
                    f"missing: {self.id!r} has time: event, so its sources need a watermark",
                )
        if len(columns) > 1:
            faults.add(
                self.id,
                "time",
                f"the sources have watermarks on {', '.join(columns)}: rename the columns to one",
            )
        return replace(self, time_column=columns[0]) if columns else self


@dataclass(frozen=True, slots=True)
class KeyedReduce(KeyedFunction):
    """`reduce` with a function."""

    op: ClassVar[str] = "reduce"


@dataclass(frozen=True, slots=True)
class Cogroup(KeyedFunction):
    op: ClassVar[str] = "cogroup"
    output: str

    def columns_out(self, inputs: Sequence[Columns | None]) -> Columns | None:
        return in_schema(self.output)


@dataclass(frozen=True, slots=True)
class Python(Vertex):
    op: ClassVar[str] = "python"
    function: str
    output: str

    def real_time_faults(self) -> Iterator[tuple[str, str]]:
        yield "function", "Spark's real-time mode runs no Python functions over batches of rows"

    def columns_out(self, inputs: Sequence[Columns | None]) -> Columns | None:
        return in_schema(self.output)


def _read_process(fields: Fields, header: Header) -> Process:
    return Process(
        header.id,
        header.inputs,
        fields.names("key"),
        read_function(fields),
        read_output(fields),
        fields.choice("time", Clock, Clock.NONE),
    )


def read_keyed_reduce(fields: Fields, header: Header) -> KeyedReduce:
    """Read a `reduce` that has a function."""
    return KeyedReduce(header.id, header.inputs, fields.names("key"), read_function(fields))


def _read_cogroup(fields: Fields, header: Header) -> Cogroup:
    key = fields.names("key", required=True)
    if fields.has("key") and not key:
        fields.fault("key", "a cogroup needs at least one column")
    if header.mode == "streaming":
        fields.fault(
            "op",
            "a cogroup needs all rows of a key, and a stream never has them: set mode: batch, or "
            "take a join with `within`, or a union and a process function that keeps both sides",
        )
    if header.inputs and {len(header.inputs), len({one.vertex for one in header.inputs})} != {2}:
        fields.fault("inputs", f"a cogroup has two inputs, not {len(header.inputs)}")
    inputs = left_and_right(fields, header.inputs, "an input")
    return Cogroup(header.id, inputs, key, read_function(fields), read_output(fields))


def _read_python(fields: Fields, header: Header) -> Python:
    return Python(header.id, header.inputs, read_function(fields), read_output(fields))


OPERATORS = (
    Operator("process", _read_process, is_always_keyed=True),
    Operator("cogroup", _read_cogroup, Arity.SOME, is_always_keyed=True),
    Operator("python", _read_python),
)
