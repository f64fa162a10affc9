"""What a source says about its connector."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jobmanager.core.graph.columns import Columns, in_schema
from jobmanager.core.graph.connectors.connector import Connector
from jobmanager.core.graph.document_fields import Fields
from jobmanager.core.graph.inputs import Side
from jobmanager.core.graph.job_graph import Mode


@dataclass(frozen=True, slots=True)
class SourceConnector(Connector):
    def read_schema(self, fields: Fields) -> str | None:
        """Read the vertex's schema, as Spark DDL; None: the connector determines the columns."""
        return fields.text("schema")

    def columns_out(self, schema: str | None) -> Columns | None:
        """Return the columns of the source, in order, with any columns that the connector adds,
        such as metadata; None: only Spark can tell.
        """
        return in_schema(schema) if schema else None

    def has_side(self, side: Side) -> bool:
        """Whether other vertices can take this side of the source as an input."""
        return False

    # In which jobs the source can be read.

    def real_time_faults(self, options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        yield (
            "connector",
            f"Spark's real-time mode reads streams from kafka only, not from {self.name}",
        )

    @property
    def can_be_static(self) -> bool:
        """Whether a stream can read the source as a whole, as the static side of a join."""
        return False

    @property
    def fault_in_a_batch(self) -> str | None:
        """Why a batch job cannot read the source."""
        return None

    @property
    def fault_in_a_stream(self) -> tuple[str, str] | None:
        """Field and message: why a stream can read the source only as a static side."""
        return None

    def has_end(self, mode: Mode) -> bool:
        """Whether the source's rows have an end."""
        return mode is Mode.BATCH

    # What Spark's offsets mean, as they are in its log: parsed JSON.

    def is_exhausted(self, committed: Any) -> bool:
        """Whether a source of a stream has no rows after the offset `committed`; None: nothing is
        committed yet. Asked only if the source has an end.
        """
        return False

    def rows_read(self, start: Any, end: Any, counted: int) -> int:
        """Return how many rows the source gave between two offsets; Spark itself `counted` that
        many.
        """
        return counted
