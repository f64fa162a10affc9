"""The connector `delta`: Delta tables in directories, read as a whole and appended to."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from jobmanager.core.graph.connectors.sink_connector import SinkConnector
from jobmanager.core.graph.connectors.source_connector import SourceConnector
from jobmanager.core.graph.document_fields import Fields

READ_AS_A_WHOLE = (
    "a table is read as a whole: in a stream it can only be the static side of a join (without "
    "within); otherwise use mode: batch"
)
ONLY_APPENDED_TO = (
    "rows are appended to the table and never replaced, so it cannot hold one complete result: "
    "take update, where the newest row of a key counts"
)


@dataclass(frozen=True, slots=True)
class DeltaSource(SourceConnector):
    name: ClassVar[str] = "delta"
    path: str
    version: int | None = None
    """None: the newest version when the attempt starts."""

    @classmethod
    def read(cls, fields: Fields) -> Self:
        return cls(fields.text("path"), fields.integer("version", None, least=0))

    def read_schema(self, fields: Fields) -> str | None:
        return fields.text("schema", "") or None

    @property
    def requires(self) -> tuple[str, ...]:
        return ("delta",)

    def places(self) -> Iterator[tuple[str, str]]:
        yield "path", self.path

    def code_in(self, options: Mapping[str, str]) -> str | None:
        return None

    @property
    def can_be_static(self) -> bool:
        return True

    @property
    def fault_in_a_stream(self) -> tuple[str, str] | None:
        return "connector", READ_AS_A_WHOLE


@dataclass(frozen=True, slots=True)
class DeltaSink(SinkConnector):
    name: ClassVar[str] = "delta"
    path: str
    partition_by: tuple[str, ...] = ()

    @classmethod
    def read(cls, fields: Fields) -> Self:
        return cls(fields.text("path"), fields.names("partition_by"))

    @property
    def requires(self) -> tuple[str, ...]:
        return ("delta",)

    def places(self) -> Iterator[tuple[str, str]]:
        yield "path", self.path

    def code_in(self, options: Mapping[str, str]) -> str | None:
        return None

    @property
    def guarantee(self) -> str:
        return "exactly once"

    @property
    def is_fenced(self) -> bool:
        return True

    def exclusive_output(self, normal: Callable[[str], str]) -> str | None:
        return normal(self.path)

    @property
    def fault_in_complete_mode(self) -> str | None:
        return ONLY_APPENDED_TO

    def needed_columns(self) -> Iterator[tuple[str, str]]:
        return (("partition_by", column) for column in self.partition_by)


SOURCES = (DeltaSource,)
SINKS = (DeltaSink,)
