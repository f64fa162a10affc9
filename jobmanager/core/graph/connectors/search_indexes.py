"""The connectors `elasticsearch` and `opensearch`: each row is the document with its key as id."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from jobmanager.core.graph.columns import Columns
from jobmanager.core.graph.connectors.keyed_sink import KeyedSink, RowKey
from jobmanager.core.graph.connectors.sockets import address
from jobmanager.core.graph.document_fields import Faults, Fields

if TYPE_CHECKING:
    from jobmanager.core.graph.graph_view import GraphView
    from jobmanager.core.graph.vertex import Vertex

_URL = re.compile(r"(https?)://(?:\[([0-9a-fA-F:]+)\]|([^\s:/@\[\]?#]+))(?::(\d{1,5}))?/?")
_PORT = 9200
_ROWS_AT_ONCE = 500
_NOT_IN_A_NAME = re.compile(r'[\\/*?"<>|\s,#:]')


@dataclass(frozen=True, slots=True)
class SearchServer:
    """Which server, and as whom."""

    host: str
    port: int
    is_encrypted: bool
    user: str | None = None
    password: str | None = None
    """A reference `${secret:name}`, as far as users follow the advice."""
    ca: str | None = None
    """A file with the certificates of the authorities to trust; None: those of the machine."""

    @classmethod
    def read(cls, fields: Fields) -> Self:
        url = fields.text("url")
        found = _URL.fullmatch(url)
        if url and "@" in url:
            fields.fault(
                "url",
                "a password in a URL is stored and shown: use the fields user and password, the "
                "password as a reference such as ${secret:search_password}",
            )
        elif url and (found is None or not 1 <= int(found[4] or _PORT) <= 65535):
            fields.fault(
                "url",
                f"{url!r} is not the address of a search server, such as "
                "https://search.example.org:9200",
            )
        ca = fields.text("ca", "") or None
        user, password = fields.text("user", "") or None, fields.text("password", "") or None
        for field, value, other in (("password", user, password), ("user", password, user)):
            if value is not None and other is None:
                fields.fault(field, "missing: user and password are needed together")
        if found is None:
            return cls("", _PORT, False)
        is_encrypted = found[1] == "https"
        if ca is not None and not is_encrypted:
            fields.fault("ca", "this is for TLS: write the url with https://, or leave this out")
        port = int(found[4] or _PORT)
        return cls(found[2] or found[3], port, is_encrypted, user, password, ca)

    @property
    def url(self) -> str:
        return address("https" if self.is_encrypted else "http", self.host, self.port)


@dataclass(frozen=True, slots=True)
class SearchSink(KeyedSink):
    """The base of both connectors: their servers take the same requests."""

    secret_fields: ClassVar[tuple[str, ...]] = ("user", "password")
    server: SearchServer
    index: str
    rows_at_once: int = _ROWS_AT_ONCE

    @classmethod
    def read_search(cls, fields: Fields) -> Self:
        return cls(
            RowKey.read(fields),
            SearchServer.read(fields),
            _index(fields),
            fields.integer("batch_size", _ROWS_AT_ONCE, least=1, most=10_000) or _ROWS_AT_ONCE,
        )

    @property
    def requires(self) -> tuple[str, ...]:
        return (self.name,)

    def places(self) -> Iterator[tuple[str, str]]:
        yield "url", address(self.name, self.server.host, self.server.port)
        if self.server.ca is not None:
            yield "ca", self.server.ca

    def code_in(self, options: Mapping[str, str]) -> str | None:
        return None

    def exclusive_output(self, normal: Callable[[str], str]) -> str | None:
        return f"index {self.index} of {address(self.name, self.server.host, self.server.port)}"

    def check(self, vertex: "Vertex", graph: "GraphView", faults: Faults) -> None:
        for option in getattr(vertex, "options", {}):
            message = f"a sink to {self.name} has no options: leave it out"
            faults.add(vertex.id, f"options.{option}", message)

    def stored_columns(self, columns: Columns) -> Columns:
        """The columns of the documents."""
        return tuple(one for one in columns if one != self.row_key.op_column)


@dataclass(frozen=True, slots=True)
class ElasticsearchSink(SearchSink):
    name: ClassVar[str] = "elasticsearch"

    @classmethod
    def read(cls, fields: Fields) -> Self:
        return cls.read_search(fields)


@dataclass(frozen=True, slots=True)
class OpenSearchSink(SearchSink):
    name: ClassVar[str] = "opensearch"

    @classmethod
    def read(cls, fields: Fields) -> Self:
        return cls.read_search(fields)


def _index(fields: Fields) -> str:
    index = fields.text("index")
    is_wrong = (
        _NOT_IN_A_NAME.search(index) or index != index.lower() or index.startswith(("-", "_", "+"))
    )
    if index and (is_wrong or index in (".", "..") or len(index.encode()) > 255):
        fields.fault(
            "index",
            f"{index!r} is not the name of an index: it is in lower case, has no spaces and none "
            'of \\ / * ? " < > | , # :, and does not begin with -, _ or +',
        )
    return index


SOURCES = ()
SINKS = (ElasticsearchSink, OpenSearchSink)
