"""Operators that combine rows by Spark SQL: `aggregate`, `reduce` and `distinct`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar

from jobmanager.core.graph.columns import Columns
from jobmanager.core.graph.document_fields import Faults, Fields
from jobmanager.core.graph.job_graph import Mode
from jobmanager.core.graph.operator_entry import Header, Operator
from jobmanager.core.graph.process_functions import KeyedReduce, read_keyed_reduce
from jobmanager.core.graph.state_layout import Layout
from jobmanager.core.graph.vertex import Vertex, named, named_expressions

if TYPE_CHECKING:
    from jobmanager.core.graph.graph_view import GraphView


@dataclass(frozen=True, slots=True)
class Aggregate(Vertex):
    op: ClassVar[str] = "aggregate"
    key: tuple[str, ...]
    aggregate: Mapping[str, str]

    @property
    def is_keyed(self) -> bool:
        return True

    @property
    def state_layout(self) -> Layout:
        return Layout.HASHED if self.key else Layout.SINGLE

    @property
    def emits_updates(self) -> bool:
        return True

    @property
    def is_grouped_without_key(self) -> bool:
        return not self.key

    @property
    def results(self) -> Mapping[str, str]:
        return self.aggregate

    def columns_out(self, inputs: Sequence[Columns | None]) -> Columns | None:
        return (*self.key, *self.aggregate)

    def expressions(self) -> Iterator[tuple[str, str]]:
        yield from named_expressions("aggregate", self.aggregate)

    def real_time_faults(self) -> Iterator[tuple[str, str]]:
        yield from ()

    def needed_columns(self) -> Iterator[tuple[str, str]]:
        yield from named("key", self.key)


@dataclass(frozen=True, slots=True)
class Reduce(Aggregate):
    """`reduce` with aggregates; with a function it is a `KeyedReduce`."""

    op: ClassVar[str] = "reduce"


@dataclass(frozen=True, slots=True)
class Distinct(Vertex):
    op: ClassVar[str] = "distinct"
    key: tuple[str, ...]
    within: timedelta | None
    """How long a key is remembered, in event time; None: for ever."""

    @property
    def is_keyed(self) -> bool:
        return True

    def columns_out(self, inputs: Sequence[Columns | None]) -> Columns | None:
        return inputs[0]

    def real_time_faults(self) -> Iterator[tuple[str, str]]:
        if self.within is not None:
            yield (
                "within",
                (
                    "Spark's real-time mode does not forget keys by the watermark: leave within "
                    "out, then every key is remembered for ever"
                ),
            )

    def needed_columns(self) -> Iterator[tuple[str, str]]:
        yield from named("key", self.key)

    def check(self, graph: "GraphView", faults: Faults) -> None:
        if self.within and graph.mode is Mode.STREAMING:
            graph.need_rows_with_watermark(self.id, faults)
            graph.need_watermarks(self.id, faults)


def _read_aggregate(fields: Fields, header: Header) -> Aggregate:
    return Aggregate(header.id, header.inputs, *_key_and_results(fields))


def _read_reduce(fields: Fields, header: Header) -> Reduce | KeyedReduce:
    """Read a reduce, which has a user's function or aggregates."""
    if fields.has("function") and fields.has("aggregate"):
        fields.fault("function", "a reduce has a function or an aggregate, not both")
    if fields.has("function"):
        return read_keyed_reduce(fields, header)
    return Reduce(header.id, header.inputs, *_key_and_results(fields))


def _key_and_results(fields: Fields) -> tuple[tuple[str, ...], Mapping[str, str]]:
    key, results = fields.names("key"), fields.expressions("aggregate")
    for column in results:
        if column in key:
            fields.fault(
                "aggregate", f"column {column!r} is already in the output: choose another name"
            )
    return key, results


def _read_distinct(fields: Fields, header: Header) -> Distinct:
    key = fields.names("key", required=True)
    if fields.has("key") and not key:
        fields.fault("key", "a distinct needs at least one column")
    within = fields.duration("within") if fields.has("within") else None
    return Distinct(header.id, header.inputs, key, within)


OPERATORS = (
    Operator("aggregate", _read_aggregate, is_always_keyed=True),
    Operator("reduce", _read_reduce, is_always_keyed=True),
    Operator("distinct", _read_distinct, is_always_keyed=True),
)
