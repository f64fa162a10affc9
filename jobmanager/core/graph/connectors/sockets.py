"""The connector `socket`: lines from a TCP connection, for demonstrations."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from jobmanager.core.graph.columns import Columns
from jobmanager.core.graph.connectors.source_connector import SourceConnector
from jobmanager.core.graph.document_fields import Fields


def address(scheme: str, host: str, port: int) -> str:
    """How a rule about paths names an address on a network."""
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}:{port}"


@dataclass(frozen=True, slots=True)
class SocketSource(SourceConnector):
    name: ClassVar[str] = "socket"
    host: str
    port: int

    @classmethod
    def read(cls, fields: Fields) -> Self:
        port = fields.integer("port", least=1, most=65535)
        return cls(fields.text("host"), port or 1)

    def read_schema(self, fields: Fields) -> str | None:
        if fields.has("schema"):
            fields.fault("schema", "a socket gives lines in a column `value`: leave this out")
        return None

    def columns_out(self, schema: str | None) -> Columns | None:
        return None

    def places(self) -> Iterator[tuple[str, str]]:
        yield "host", address("socket", self.host, self.port)

    def code_in(self, options: Mapping[str, str]) -> str | None:
        return None

    @property
    def fault_in_a_batch(self) -> str | None:
        return "a socket never ends: a batch job cannot read it"


SOURCES = (SocketSource,)
SINKS = ()
