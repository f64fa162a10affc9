"""The connector `console`: the first rows of each batch, in the runner's log."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from jobmanager.core.graph.connectors.sink_connector import SinkConnector
from jobmanager.core.graph.document_fields import Fields


@dataclass(frozen=True, slots=True)
class ConsoleSink(SinkConnector):
    name: ClassVar[str] = "console"

    @classmethod
    def read(cls, fields: Fields) -> Self:
        return cls()

    def real_time_faults(self, options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        yield from ()

    def code_in(self, options: Mapping[str, str]) -> str | None:
        return None

    @property
    def is_fenced(self) -> bool:
        return True


SOURCES = ()
SINKS = (ConsoleSink,)
