"""Loops of a batch job: `iterate` and `delta_iterate`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from jobmanager.core.graph.document_fields import Fields
from jobmanager.core.graph.operator_entry import Arity, Header, Operator
from jobmanager.core.graph.vertex import Vertex, named
from jobmanager.core.ids import VertexId

MOST_ITERATIONS = 100_000


@dataclass(frozen=True, slots=True)
class Loop(Vertex):
    """A body of vertices that rows go through again and again."""

    body: tuple[Vertex, ...]

    @property
    def inner_vertices(self) -> tuple[Vertex, ...]:
        return self.body


@dataclass(frozen=True, slots=True)
class Iterate(Loop):
    """Sends the rows of its first input through the body again and again.

    In the body the id of the first input means the result of the previous round; the ids of the
    other inputs mean the same rows in every round.
    """

    op: ClassVar[str] = "iterate"
    result: VertexId
    """The body's vertex that gives the rows of the next round."""
    max_iterations: int
    until: str | None = None
    """A Spark SQL aggregate over the rows of a round; the loop ends after a round for which it is
    true.
    """


@dataclass(frozen=True, slots=True)
class DeltaIterate(Loop):
    """Changes a solution set (its first input) until the workset (its second input) is empty."""

    op: ClassVar[str] = "delta_iterate"
    key: tuple[str, ...]
    """The key of the solution set, which has one row for each key."""
    delta: VertexId
    """The body's vertex whose rows replace those of the same key in the solution set."""
    workset: VertexId
    """The body's vertex that gives the workset of the next round."""
    max_iterations: int
    until: str | None = None
    """A Spark SQL aggregate over the delta of a round."""

    def needed_columns(self) -> Iterator[tuple[str, str]]:
        yield from named("key", self.key)


def _read_iterate(fields: Fields, header: Header) -> Iterate:
    body, results = header.read_body(fields, ())
    if len(results) > 1:
        fields.fault(
            "body",
            f"the body of a loop must have a single result, but nothing uses {', '.join(results)}: "
            "put a union behind them, or drop all but one",
        )
    result = results[0] if results else header.id
    return Iterate(header.id, header.inputs, body, result, _rounds(fields), _until(fields))


def _read_delta_iterate(fields: Fields, header: Header) -> DeltaIterate:
    if len(header.inputs) < 2:
        fields.fault(
            "inputs", "a delta_iterate needs two inputs: the solution set, then the workset"
        )
    key = fields.names("key", required=True)
    if not key and isinstance(fields.raw("key"), list):
        fields.fault("key", "missing: the columns that tell the rows of the solution set apart")
    delta, workset = fields.text("delta"), fields.text("workset")
    body, _ = header.read_body(fields, tuple(one for one in (delta, workset) if one))
    return DeltaIterate(
        header.id,
        header.inputs,
        body,
        key,
        VertexId(delta),
        VertexId(workset),
        _rounds(fields),
        _until(fields),
    )


def _rounds(fields: Fields) -> int:
    return fields.integer("max_iterations", least=1, most=MOST_ITERATIONS) or 1


def _until(fields: Fields) -> str | None:
    return fields.text("until") if fields.has("until") else None


OPERATORS = (
    Operator("iterate", _read_iterate, Arity.SOME, only_in_batch=True),
    Operator("delta_iterate", _read_delta_iterate, Arity.SOME, only_in_batch=True),
)
