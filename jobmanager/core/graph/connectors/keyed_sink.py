"""What sinks say that write each row under its key, and to nothing else: stores of keys and values,
and search indexes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from jobmanager.core.graph.connectors.sink_connector import SinkConnector
from jobmanager.core.graph.connectors.table_mode import TableMode
from jobmanager.core.graph.document_fields import Fields
from jobmanager.core.graph.output_mode import OutputMode


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


@dataclass(frozen=True, slots=True)
class KeyedSink(SinkConnector):
    """The base of these sinks."""

    row_key: RowKey

    @property
    def guarantee(self) -> str:
        return "exactly once by key: the newest row of a key stays"

    def read_mode(self, fields: Fields) -> OutputMode | None:
        if not fields.has("output_mode"):
            return None
        return fields.choice("output_mode", OutputMode)

    def needed_columns(self) -> Iterator[tuple[str, str]]:
        yield from self.row_key.needed_columns()
