"""The connectors `elasticsearch` and `opensearch`: each row is the document with its key as id."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from jobmanager.core.graph.connectors.keyed_sink import (
    ROWS_AT_ONCE,
    KeyedSink,
    RowKey,
    read_login,
    read_rows_at_once,
)
from jobmanager.core.graph.connectors.sockets import address
from jobmanager.core.graph.document_fields import Fields

_URL = re.compile(r"(https?)://(?:\[([0-9a-fA-F:]+)\]|([^\s:/@\[\]?#]+))(?::(\d{1,5}))?/?")
_PORT = 9200
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
        user, password = read_login(fields)
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

    server: SearchServer
    index: str
    rows_at_once: int = ROWS_AT_ONCE

    @classmethod
    def read_search(cls, fields: Fields) -> Self:
        return cls(
            RowKey.read(fields),
            SearchServer.read(fields),
            _index(fields),
            read_rows_at_once(fields),
        )

    def places(self) -> Iterator[tuple[str, str]]:
        yield "url", address(self.name, self.server.host, self.server.port)
        if self.server.ca is not None:
            yield "ca", self.server.ca

    def exclusive_output(self, normal: Callable[[str], str]) -> str | None:
        return f"index {self.index} of {address(self.name, self.server.host, self.server.port)}"


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
