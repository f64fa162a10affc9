"""The connector `table`: rows that are written in the graph itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from jobmanager.core.graph.connectors.source_connector import SourceConnector
from jobmanager.core.graph.document_fields import Fields
from jobmanager.core.graph.job_graph import Mode

MOST_TABLE_ROWS = 100_000


@dataclass(frozen=True, slots=True)
class TableSource(SourceConnector):
    name: ClassVar[str] = "table"
    rows: tuple[Mapping[str, Any], ...]

    @classmethod
    def read(cls, fields: Fields) -> Self:
        return cls(_rows(fields))

    def code_in(self, options: Mapping[str, str]) -> str | None:
        return None

    @property
    def can_be_static(self) -> bool:
        return True

    def has_end(self, mode: Mode) -> bool:
        return True

    def is_exhausted(self, committed: Any) -> bool:
        return committed is not None  # one file: its first offset covers it


def _rows(fields: Fields) -> tuple[Mapping[str, Any], ...]:
    rows = fields.raw("rows")
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        fields.fault("rows", "missing: a list of rows, each a mapping column: value, is needed")
        return ()
    if len(rows) > MOST_TABLE_ROWS:
        fields.fault("rows", f"{len(rows)} rows are too many for a graph: use files")
    return tuple(rows)


SOURCES = (TableSource,)
SINKS = ()
