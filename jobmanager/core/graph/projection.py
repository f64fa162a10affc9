"""Operators that look at one row at a time: `map`, `filter`, `flat_map`, and `union`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from jobmanager.core.graph.columns import Columns, missing, shared
from jobmanager.core.graph.document_fields import Fields
from jobmanager.core.graph.operator_entry import Arity, Header, Operator
from jobmanager.core.graph.vertex import Vertex, named, named_expressions


@dataclass(frozen=True, slots=True)
class Map(Vertex):
    op: ClassVar[str] = "map"
    select: Mapping[str, str] | None
    """The output columns; None: all columns of the input, with `add` and `drop` applied."""
    add: Mapping[str, str] = field(default_factory=dict)
    drop: tuple[str, ...] = ()

    def columns_out(self, inputs: Sequence[Columns | None]) -> Columns | None:
        if self.select is not None:
            return tuple(self.select)
        before = inputs[0]
        if before is None:
            return None
        added = (*before, *(name for name in self.add if name not in before))
        return tuple(name for name in added if name not in self.drop)

    def expressions(self) -> Iterator[tuple[str, str]]:
        yield from named_expressions("select", self.select or {})
        yield from named_expressions("add", self.add)

    def real_time_faults(self) -> Iterator[tuple[str, str]]:
        yield from ()

    def needed_columns(self) -> Iterator[tuple[str, str]]:
        if self.select is None:
            yield from named("drop", (name for name in self.drop if name not in self.add))


@dataclass(frozen=True, slots=True)
class Filter(Vertex):
    op: ClassVar[str] = "filter"
    where: str

    def columns_out(self, inputs: Sequence[Columns | None]) -> Columns | None:
        return inputs[0]

    def expressions(self) -> Iterator[tuple[str, str]]:
        yield "where", self.where

    def real_time_faults(self) -> Iterator[tuple[str, str]]:
        yield from ()


@dataclass(frozen=True, slots=True)
class FlatMap(Vertex):
    op: ClassVar[str] = "flat_map"
    explode: str
    """An expression that gives an array, or a map."""
    names: tuple[str, ...]
    """Name of the new column; for a map, names of key and value."""
    keep: tuple[str, ...] | None
    """None: every column."""

    def columns_out(self, inputs: Sequence[Columns | None]) -> Columns | None:
        kept = inputs[0] if self.keep is None else self.keep
        return None if kept is None else (*kept, *self.names)

    def expressions(self) -> Iterator[tuple[str, str]]:
        yield "explode", self.explode

    def real_time_faults(self) -> Iterator[tuple[str, str]]:
        yield from ()

    def needed_columns(self) -> Iterator[tuple[str, str]]:
        yield from named("keep", self.keep or ())

    def column_faults(self, inputs: Sequence[Columns]) -> Iterator[tuple[str, str]]:
        yield from Vertex.column_faults(self, inputs)
        if self.keep is None and inputs:
            for name in shared(self.names, inputs[0]):
                message = f"column {name!r} exists already: choose another name, or do not keep it"
                yield "as", message


@dataclass(frozen=True, slots=True)
class Union(Vertex):
    op: ClassVar[str] = "union"

    def columns_out(self, inputs: Sequence[Columns | None]) -> Columns | None:
        return inputs[0]

    def real_time_faults(self) -> Iterator[tuple[str, str]]:
        yield from ()

    def column_faults(self, inputs: Sequence[Columns]) -> Iterator[tuple[str, str]]:
        first = inputs[0]
        for one, other in zip(self.inputs[1:], inputs[1:], strict=True):
            lacking = [*missing(first, other), *missing(other, first)]
            if lacking:
                both = f"{self.inputs[0].vertex!r} and {one.vertex!r}"
                yield "inputs", f"{both} do not both have {', '.join(lacking)}"


def _read_map(fields: Fields, header: Header) -> Map:
    if fields.has("select"):
        for other in ("add", "drop"):
            if fields.has(other):
                fields.fault(other, f"select names every column that comes out: drop {other!r}")
        return Map(header.id, header.inputs, fields.expressions("select"))
    add, drop = fields.expressions("add", required=False), fields.names("drop")
    if not add and not drop:
        fields.fault("select", "missing: a map needs select, add or drop")
    return Map(header.id, header.inputs, None, add, drop)


def _read_filter(fields: Fields, header: Header) -> Filter:
    return Filter(header.id, header.inputs, fields.text("where"))


def _read_flat_map(fields: Fields, header: Header) -> FlatMap:
    names = fields.names("as", required=True)
    if len(names) > 2:
        fields.fault("as", "one name, or two for the key and the value of a map")
    keep = fields.names("keep") if fields.has("keep") else None
    for name in names:
        if name in (keep or ()):
            fields.fault("as", f"column {name!r} is kept already: choose another name")
    return FlatMap(header.id, header.inputs, fields.text("explode"), names, keep)


def _read_union(fields: Fields, header: Header) -> Union:
    return Union(header.id, header.inputs)


OPERATORS = (
    Operator("map", _read_map),
    Operator("filter", _read_filter),
    Operator("flat_map", _read_flat_map),
    Operator("union", _read_union, Arity.SOME),
)
