"""The connector `generator`: rows that are computed from their number."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from jobmanager.core.graph.columns import Columns
from jobmanager.core.graph.connectors.source_connector import SourceConnector
from jobmanager.core.graph.document_fields import Fields
from jobmanager.core.graph.job_graph import Mode


@dataclass(frozen=True, slots=True)
class GeneratorSource(SourceConnector):
    name: ClassVar[str] = "generator"
    rows_per_second: int
    rows: int | None
    """None: unbounded."""
    columns: Mapping[str, str]
    """Columns, each a Spark SQL expression over `id` and `ts`."""

    @classmethod
    def read(cls, fields: Fields) -> Self:
        return cls(
            fields.integer("rows_per_second", least=1) or 1,
            fields.integer("rows", None, least=1, most=2**62),
            fields.expressions("columns"),
        )

    def read_schema(self, fields: Fields) -> str | None:
        if fields.has("schema"):
            fields.fault("schema", "a generator's columns are its schema: leave this out")
        return None

    def columns_out(self, schema: str | None) -> Columns | None:
        return tuple(self.columns)

    def code_in(self, options: Mapping[str, str]) -> str | None:
        return None

    def has_end(self, mode: Mode) -> bool:
        return self.rows is not None

    def is_exhausted(self, committed: Any) -> bool:
        if committed is None or self.rows is None:
            return False
        return self.rows_up_to(committed) >= self.rows

    def rows_read(self, start: Any, end: Any, counted: int) -> int:
        """Spark's generator continues after the last row of a bounded one; those rows do not
        count.
        """
        return counted if self.rows is None else self.rows_up_to(end) - self.rows_up_to(start)

    def rows_up_to(self, offset: Any) -> int:
        """Return how many rows there are up to `offset`: Spark counts whole seconds."""
        given = int(offset or 0) * self.rows_per_second
        return given if self.rows is None else min(given, self.rows)


SOURCES = (GeneratorSource,)
SINKS = ()
