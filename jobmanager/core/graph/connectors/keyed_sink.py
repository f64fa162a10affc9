"""What sinks say that write each row under its key, and to nothing else: stores of keys and values,
and search indexes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from jobmanager.core.graph.columns import Columns
from jobmanager.core.graph.connectors.sink_connector import SinkConnector
from jobmanager.core.graph.connectors.table_mode import TableMode
from jobmanager.core.graph.document_fields import Faults, Fields
from jobmanager.core.graph.output_mode import OutputMode

if TYPE_CHECKING:
    from jobmanager.core.graph.graph_view import GraphView
    from jobmanager.core.graph.vertex import Vertex

ROWS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class RowKey:
    """What the rows of a batch do, and to which key."""

    mode: TableMode
    columns: tuple[str, ...]
    op_column: str | None = None
    """The column whose value `d` makes a row delete its key, as in captured changes."""
    order_by: tuple[str, ...] = ()
    """Which of several rows of a key in one batch is the last."""

    @classmethod
    def read(cls, fields: Fields) -> Self:
        found = cls(
            fields.choice("mode", TableMode, TableMode.UPSERT),
            fields.names("key", required=True),
            fields.text("op_column", "") or None,
            fields.names("order_by"),
        )
        if fields.has("key") and not found.columns:
            fields.fault("key", "at least one column is needed")
        if found.mode is TableMode.APPEND:
            fields.fault("mode", "rows are written by key: use upsert, or delete")
        for field, value in (("op_column", found.op_column), ("order_by", found.order_by)):
            if value and found.mode is TableMode.DELETE:
                fields.fault(field, f"this is for mode upsert, and the mode is {found.mode}")
        if found.op_column is not None and found.op_column in found.columns:
            fields.fault("op_column", f"{found.op_column!r} is a column of the key")
        return found

    def needed_columns(self) -> Iterator[tuple[str, str]]:
        yield from (("key", column) for column in self.columns)
        yield from (("order_by", column) for column in self.order_by)
        if self.op_column is not None:
            yield "op_column", self.op_column


def read_login(fields: Fields) -> tuple[str | None, str | None]:
    """Read `user` and `password`, for a server that needs both or none."""
    user, password = fields.text("user", "") or None, fields.text("password", "") or None
    for field, value, other in (("password", user, password), ("user", password, user)):
        if value is not None and other is None:
            fields.fault(field, "missing: user and password are needed together")
    return user, password


def read_rows_at_once(fields: Fields) -> int:
    return fields.integer("batch_size", ROWS_AT_ONCE, least=1, most=10_000) or ROWS_AT_ONCE


@dataclass(frozen=True, slots=True)
class KeyedSink(SinkConnector):
    """The base of these sinks."""

    secret_fields: ClassVar[tuple[str, ...]] = ("user", "password")
    row_key: RowKey

    @property
    def requires(self) -> tuple[str, ...]:
        return (self.name,)

    def code_in(self, options: Mapping[str, str]) -> str | None:
        return None

    def check(self, vertex: "Vertex", graph: "GraphView", faults: Faults) -> None:
        for option in getattr(vertex, "options", {}):
            message = f"a sink to {self.name} has no options: leave it out"
            faults.add(vertex.id, f"options.{option}", message)

    def stored_columns(self, columns: Columns) -> Columns:
        """The columns of a row that are written."""
        return tuple(one for one in columns if one != self.row_key.op_column)

    @property
    def guarantee(self) -> str:
        return "exactly once by key: the newest row of a key stays"

    def read_mode(self, fields: Fields) -> OutputMode | None:
        if not fields.has("output_mode"):
            return None
        return fields.choice("output_mode", OutputMode)

    def needed_columns(self) -> Iterator[tuple[str, str]]:
        yield from self.row_key.needed_columns()
