"""The connector `python`: a class of Spark's Python data source API that a user has written."""

import re
from dataclasses import dataclass
from typing import ClassVar, Self

from jobmanager.core.graph.connectors.sink_connector import SinkConnector
from jobmanager.core.graph.connectors.source_connector import SourceConnector
from jobmanager.core.graph.document_fields import Fields

_REFERENCE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class PythonSource(SourceConnector):
    name: ClassVar[str] = "python"
    function: str
    """`module:Class`, a data source of Spark's Python API."""

    @classmethod
    def read(cls, fields: Fields) -> Self:
        return cls(_read_class(fields))

    def read_schema(self, fields: Fields) -> str | None:
        return fields.text("schema", "") or None

    def option_fault(self, option: str, value: str) -> str | None:
        return None  # only the class knows what its options mean


@dataclass(frozen=True, slots=True)
class PythonSink(SinkConnector):
    name: ClassVar[str] = "python"
    function: str
    """`module:Class`, a data source of Spark's Python API that has a writer."""

    @classmethod
    def read(cls, fields: Fields) -> Self:
        return cls(_read_class(fields))

    @property
    def guarantee(self) -> str:
        return "what its class gives"

    def option_fault(self, option: str, value: str) -> str | None:
        return None


def _read_class(fields: Fields) -> str:
    """Read the field `class`: `module:Class`."""
    reference = fields.text("class")
    if reference and not _REFERENCE.fullmatch(reference):
        fields.fault("class", f"{reference!r} is not of the form module:Class")
    return reference


SOURCES = (PythonSource,)
SINKS = (PythonSink,)
