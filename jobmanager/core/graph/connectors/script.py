"""The connector `script`: what a script reads and writes itself. Only scripts become graphs with
it; users do not write it.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

from jobmanager.core.graph.connectors.sink_connector import SinkConnector
from jobmanager.core.graph.connectors.source_connector import SourceConnector
from jobmanager.core.graph.document_fields import Fields


@dataclass(frozen=True, slots=True)
class ScriptSource(SourceConnector):
    """A source that a script itself reads."""

    name: ClassVar[str] = "script"
    is_suggested: ClassVar[bool] = False
    description: str

    @classmethod
    def read(cls, fields: Fields) -> Self:
        return cls(fields.text("description", ""))

    def read_schema(self, fields: Fields) -> str | None:
        return None


@dataclass(frozen=True, slots=True)
class ScriptSink(SinkConnector):
    """What the script itself does with each batch."""

    name: ClassVar[str] = "script"
    is_suggested: ClassVar[bool] = False
    description: str

    @classmethod
    def read(cls, fields: Fields) -> Self:
        return cls(fields.text("description", ""))


SOURCES = (ScriptSource,)
SINKS = (ScriptSink,)
