"""The connector `redis`: each row under its key, as a hash, as JSON or as a plain value."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import ClassVar, Self

from jobmanager.core.graph.columns import Columns
from jobmanager.core.graph.connectors.keyed_sink import (
    ROWS_AT_ONCE,
    KeyedSink,
    RowKey,
    read_rows_at_once,
)
from jobmanager.core.graph.connectors.sockets import address
from jobmanager.core.graph.connectors.table_mode import TableMode
from jobmanager.core.graph.document_fields import Fields

_URL = re.compile(
    r"(rediss?)://(?:\[([0-9a-fA-F:]+)\]|([^\s:/@\[\]?#]+))(?::(\d{1,5}))?(?:/(\d*))?"
)
_PORT = 6379


class ValueFormat(StrEnum):
    """What is stored under a key."""

    HASH = "hash"
    """A Redis hash with a field for each column that is not null."""
    JSON = "json"
    """A text: an object with all columns."""
    RAW = "raw"
    """The only column beside the key, as it is."""


@dataclass(frozen=True, slots=True)
class RedisServer:
    """Which server, and as whom."""

    host: str
    port: int
    database: int
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
                "password as a reference such as ${secret:redis_password}",
            )
        elif url and (found is None or not 1 <= int(found[4] or _PORT) <= 65535):
            fields.fault(
                "url",
                f"{url!r} is not the address of a Redis server, such as "
                "redis://redis.example.org:6379/0, or rediss:// for TLS",
            )
        ca = fields.text("ca", "") or None
        if found is None:
            return cls("", _PORT, 0, False)
        is_encrypted = found[1] == "rediss"
        if ca is not None and not is_encrypted:
            fields.fault("ca", "this is for TLS: write the url with rediss://, or leave this out")
        return cls(
            found[2] or found[3],
            int(found[4] or _PORT),
            int(found[5] or 0),
            is_encrypted,
            fields.text("user", "") or None,
            fields.text("password", "") or None,
            ca,
        )

    @property
    def place(self) -> str:
        """How a rule about paths names the server."""
        return address("redis", self.host, self.port)


@dataclass(frozen=True, slots=True)
class RedisSink(KeyedSink):
    name: ClassVar[str] = "redis"
    server: RedisServer
    prefix: str
    """What all keys of the sink begin with."""
    format: ValueFormat
    expire: timedelta | None = None
    """How long a key lives after it was last written; None: for ever."""
    rows_at_once: int = ROWS_AT_ONCE

    @classmethod
    def read(cls, fields: Fields) -> Self:
        return cls(
            RowKey.read(fields),
            RedisServer.read(fields),
            fields.text("prefix"),
            fields.choice("format", ValueFormat, ValueFormat.HASH),
            fields.duration("expire") if fields.has("expire") else None,
            read_rows_at_once(fields),
        )

    def places(self) -> Iterator[tuple[str, str]]:
        yield "url", self.server.place
        if self.server.ca is not None:
            yield "ca", self.server.ca

    @property
    def is_fenced(self) -> bool:
        return True

    def exclusive_output(self, normal: Callable[[str], str]) -> str | None:
        return f"keys {self.prefix}* of {self.server.place}/{self.server.database}"

    def value_columns(self, columns: Columns) -> Columns:
        """The columns that are stored. With raw, those of the key and of the order are not."""
        key = self.row_key
        apart = {key.op_column} if key.op_column is not None else set()
        if self.format is ValueFormat.RAW:
            apart |= {*key.columns, *key.order_by}
        return tuple(one for one in columns if one not in apart)

    def column_faults(self, columns: Columns) -> Iterator[tuple[str, str]]:
        written = self.value_columns(columns)
        is_single = self.format is ValueFormat.RAW and self.row_key.mode is TableMode.UPSERT
        if is_single and len(written) != 1:
            found = f"{len(written)} ({', '.join(written)})" if written else "none"
            message = (
                "format raw stores a single column beside key, op_column and order_by, but the "
                f"input has {found}: drop or combine columns in a map before the sink"
            )
            yield "format", message


SOURCES = ()
SINKS = (RedisSink,)
