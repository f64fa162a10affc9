"""The operator `source`: where rows come from."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar

from jobmanager.core.graph.columns import Columns, missing_columns
from jobmanager.core.graph.connectors import registry
from jobmanager.core.graph.connectors.script import ScriptSource
from jobmanager.core.graph.connectors.source_connector import SourceConnector
from jobmanager.core.graph.document_fields import Faults, Fields
from jobmanager.core.graph.inputs import Side
from jobmanager.core.graph.job_graph import Mode
from jobmanager.core.graph.operator_entry import Arity, Header, Operator
from jobmanager.core.graph.vertex import Vertex

if TYPE_CHECKING:
    from jobmanager.core.graph.graph_view import GraphView


@dataclass(frozen=True, slots=True)
class Watermark:
    column: str
    delay: timedelta


@dataclass(frozen=True, slots=True)
class Source(Vertex):
    op: ClassVar[str] = "source"
    connector: SourceConnector
    schema: str | None
    """Spark DDL; None: the connector determines the columns."""
    watermark: Watermark | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def can_be_static(self) -> bool:
        """Whether a stream can read the source as a whole."""
        return self.connector.can_be_static

    def is_bounded(self, mode: Mode) -> bool:
        """Whether the source's rows have an end."""
        return self.connector.has_end(mode)

    def columns_out(self, inputs: Sequence[Columns | None]) -> Columns | None:
        return self.connector.columns_out(self.schema)

    def places(self) -> Iterator[tuple[str, str]]:
        yield from self.connector.places()

    def has_side(self, side: Side) -> bool:
        return self.connector.has_side(side)

    def column_faults(self, inputs: Sequence[Columns]) -> Iterator[tuple[str, str]]:
        columns = self.columns_out(())
        if self.watermark is not None and columns is not None:
            yield from missing_columns([("watermark.column", self.watermark.column)], columns)

    def real_time_faults(self) -> Iterator[tuple[str, str]]:
        yield from self.connector.real_time_faults(self.options)

    def check(self, graph: "GraphView", faults: Faults) -> None:
        if graph.mode is Mode.BATCH and (message := self.connector.fault_in_a_batch):
            faults.add(self.id, "connector", message)
        self.connector.check(self, graph, faults)


def _read(fields: Fields, header: Header) -> Source:
    connector = registry.read_source(fields)
    schema = connector.read_schema(fields) if connector else fields.text("schema", "") or None
    watermark = None
    if fields.has("watermark"):
        inner = fields.section("watermark")
        column, delay = inner.text("column"), inner.duration("delay", "0s", zero=True)
        inner.done()
        watermark = Watermark(column, delay) if delay is not None else None
    stand_in = connector or ScriptSource("")  # whose columns nobody knows
    return Source(header.id, (), stand_in, schema, watermark, fields.settings("options"))


OPERATORS = (Operator("source", _read, Arity.NONE),)
