"""The connector `cassandra`: each row is the row of a table with the same primary key."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
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

_NODE = re.compile(r"(?:\[([0-9a-fA-F:]+)\]|([^\s:/@\[\]?#,]+))(?::(\d{1,5}))?")
_NAME = re.compile(r"[A-Za-z0-9_]{1,48}")
_PORT = 9042
_SHORTEST, _LONGEST = timedelta(seconds=1), timedelta(days=20 * 365)
"""Cassandra counts in seconds, and up to 20 years."""
_RECORDS = "headgate_sinks"


class Consistency(StrEnum):
    """How many replicas have to take a write."""

    ONE = "one"
    QUORUM = "quorum"
    LOCAL_QUORUM = "local_quorum"
    EACH_QUORUM = "each_quorum"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class CassandraServers:
    """Which cluster, and as whom."""

    hosts: tuple[str, ...]
    port: int
    is_encrypted: bool = False
    user: str | None = None
    password: str | None = None
    """A reference `${secret:name}`, as far as users follow the advice."""
    ca: str | None = None
    """A file with the certificates of the authorities to trust; None: those of the machine."""

    @classmethod
    def read(cls, fields: Fields) -> Self:
        hosts, port = _nodes(fields)
        is_encrypted = fields.flag("tls", False)
        user, password = read_login(fields)
        ca = fields.text("ca", "") or None
        if ca is not None and not is_encrypted:
            fields.fault("ca", "this is for TLS: write tls: true, or leave this out")
        return cls(hosts, port, is_encrypted, user, password, ca)


@dataclass(frozen=True, slots=True)
class CassandraSink(KeyedSink):
    name: ClassVar[str] = "cassandra"
    servers: CassandraServers
    keyspace: str
    table: str
    consistency: Consistency = Consistency.LOCAL_QUORUM
    expire: timedelta | None = None
    """How long a row lives after it was last written; None: for ever."""
    rows_at_once: int = ROWS_AT_ONCE

    @classmethod
    def read(cls, fields: Fields) -> Self:
        return cls(
            RowKey.read(fields),
            CassandraServers.read(fields),
            _name(fields, "keyspace"),
            _name(fields, "table"),
            fields.choice("consistency", Consistency, Consistency.LOCAL_QUORUM),
            _expire(fields),
            read_rows_at_once(fields),
        )

    def places(self) -> Iterator[tuple[str, str]]:
        for host in self.servers.hosts:
            yield "servers", address("cassandra", host, self.servers.port)
        if self.servers.ca is not None:
            yield "ca", self.servers.ca

    def exclusive_output(self, normal: Callable[[str], str]) -> str | None:
        first = sorted(self.servers.hosts)[0] if self.servers.hosts else ""
        place = address("cassandra", first, self.servers.port)
        return f"table {self.keyspace}.{self.table} of {place}"


def _nodes(fields: Fields) -> tuple[tuple[str, ...], int]:
    """Hosts and their port, from `host` or `host:port`, a text or a list."""
    given = fields.raw("servers")
    texts = given.split(",") if isinstance(given, str) else given
    if given is None or texts == []:
        fields.fault("servers", "missing: nodes such as cassandra.example.org:9042 are needed")
        return (), _PORT
    if not isinstance(texts, list) or not all(isinstance(one, str) for one in texts):
        fields.fault("servers", f"{given!r} is not a list of nodes")
        return (), _PORT
    hosts, ports = [], set()
    for text in texts:
        found = _NODE.fullmatch(text.strip())
        if found is None or not 1 <= int(found[3] or _PORT) <= 65535:
            shown = "its text has an @" if "@" in text else repr(text)
            fields.fault("servers", f"{shown}: a node is host, or host:port")
            continue
        hosts.append(found[1] or found[2])
        ports.add(int(found[3] or _PORT))
    if len(ports) > 1:
        fields.fault("servers", "all nodes of a cluster have the same port")
    return tuple(hosts), min(ports, default=_PORT)


def _name(fields: Fields, field: str) -> str:
    name = fields.text(field)
    if name and not _NAME.fullmatch(name):
        fields.fault(field, f"{name!r} is not a name: letters, digits and _, up to 48")
    if field == "table" and name == _RECORDS:
        fields.fault(field, f"{name} is the table in which sinks keep their own records")
    return name


def _expire(fields: Fields) -> timedelta | None:
    expire = fields.duration("expire") if fields.has("expire") else None
    if expire is not None and not _SHORTEST <= expire <= _LONGEST:
        fields.fault("expire", "rows live between a second and 20 years")
    return expire


SOURCES = ()
SINKS = (CassandraSink,)
