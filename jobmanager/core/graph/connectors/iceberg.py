"""The connector `iceberg`: Iceberg tables of a catalogue, read as a whole and appended to."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self
from urllib.parse import urlsplit

from jobmanager.core.graph.connectors.delta import ONLY_APPENDED_TO, READ_AS_A_WHOLE
from jobmanager.core.graph.connectors.sink_connector import SinkConnector
from jobmanager.core.graph.connectors.source_connector import SourceConnector
from jobmanager.core.graph.document_fields import Fields

_CODE = "py-"
"""Properties of a catalogue that name Python classes begin so."""


@dataclass(frozen=True, slots=True)
class IcebergSource(SourceConnector):
    name: ClassVar[str] = "iceberg"
    secret_fields: ClassVar[tuple[str, ...]] = ("catalog",)
    table: str
    catalog: Mapping[str, str]
    snapshot: int | None = None
    """None: the current snapshot when the attempt starts."""

    @classmethod
    def read(cls, fields: Fields) -> Self:
        snapshot = fields.integer("snapshot", None, least=0, most=2**63 - 1)
        return cls(_table(fields), _catalog(fields), snapshot)

    def read_schema(self, fields: Fields) -> str | None:
        return fields.text("schema", "") or None

    @property
    def requires(self) -> tuple[str, ...]:
        return ("iceberg",)

    def places(self) -> Iterator[tuple[str, str]]:
        return _places(self.catalog)

    def code_in(self, options: Mapping[str, str]) -> str | None:
        return _code(self.catalog)

    @property
    def can_be_static(self) -> bool:
        return True

    @property
    def fault_in_a_stream(self) -> tuple[str, str] | None:
        return "connector", READ_AS_A_WHOLE


@dataclass(frozen=True, slots=True)
class IcebergSink(SinkConnector):
    name: ClassVar[str] = "iceberg"
    secret_fields: ClassVar[tuple[str, ...]] = ("catalog",)
    table: str
    catalog: Mapping[str, str]
    partition_by: tuple[str, ...] = ()

    @classmethod
    def read(cls, fields: Fields) -> Self:
        return cls(_table(fields), _catalog(fields), fields.names("partition_by"))

    @property
    def requires(self) -> tuple[str, ...]:
        return ("iceberg",)

    def places(self) -> Iterator[tuple[str, str]]:
        return _places(self.catalog)

    def code_in(self, options: Mapping[str, str]) -> str | None:
        return _code(self.catalog)

    @property
    def guarantee(self) -> str:
        return "exactly once"

    @property
    def is_fenced(self) -> bool:
        return True

    def exclusive_output(self, normal: Callable[[str], str]) -> str | None:
        catalog = self.catalog.get("uri", self.catalog.get("warehouse", ""))
        return f"iceberg {_address(catalog) or catalog} {self.table}"

    @property
    def fault_in_complete_mode(self) -> str | None:
        return ONLY_APPENDED_TO

    def needed_columns(self) -> Iterator[tuple[str, str]]:
        return (("partition_by", column) for column in self.partition_by)


def _table(fields: Fields) -> str:
    name = fields.text("table")
    parts = name.split(".")
    if name and (len(parts) < 2 or not all(parts)):
        fields.fault("table", f"{name!r} is not of the form namespace.table")
    return name


def _catalog(fields: Fields) -> dict[str, str]:
    """The properties of the catalogue, as pyiceberg names them."""
    found = fields.settings("catalog")
    if not fields.has("catalog"):
        fields.fault("catalog", "missing: a mapping with the catalogue's `uri` is needed")
    elif "uri" not in found:
        fields.fault(
            "catalog.uri", "missing: the catalogue's address, such as postgresql://host/db"
        )
    elif found["uri"].startswith("${"):
        fields.fault(
            "catalog.uri", "write the address itself, and refer to a secret for the password only"
        )
    return found


def _places(catalog: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    uri = catalog.get("uri", "")
    if uri.startswith("sqlite:"):
        yield "catalog.uri", uri.partition("///")[2].partition("?")[0]
    elif address := _address(uri):
        yield "catalog.uri", address
    if warehouse := catalog.get("warehouse"):
        yield "catalog.warehouse", warehouse


def _address(uri: str) -> str:
    """An address without user, password and driver: `postgresql://host:5432/db`."""
    try:
        found = urlsplit(uri)
        port = found.port
    except ValueError:
        return ""
    scheme = found.scheme.partition("+")[0]
    host = found.hostname or ""
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}{f':{port}' if port else ''}{found.path}" if scheme else ""


def _code(catalog: Mapping[str, str]) -> str | None:
    named = [one for one in sorted(catalog) if one.startswith(_CODE)]
    return f"has a catalogue that runs code ({named[0]})" if named else None


SOURCES = (IcebergSource,)
SINKS = (IcebergSink,)
