"""The connector `blackhole`: rows are computed, counted and dropped."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from jobmanager.core.graph.connectors.sink_connector import SinkConnector
from jobmanager.core.graph.document_fields import Fields


@dataclass(frozen=True, slots=True)
class BlackholeSink(SinkConnector):
    name: ClassVar[str] = "blackhole"

    @classmethod
    def read(cls, fields: Fields) -> Self:
        return cls()

    def code_in(self, options: Mapping[str, str]) -> str | None:
        return None

    @property
    def guarantee(self) -> str:
        return "nothing kept"

    @property
    def is_fenced(self) -> bool:
        return True


SOURCES = ()
SINKS = (BlackholeSink,)
