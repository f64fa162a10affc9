"""The field `registry` of Kafka sources and sinks: which schema of which schema registry.

    as a user writes it      {url, subject?, version? | id?, user?, password?, register?}
    in the stored graph      the same, with `resolved`: the schema that the server found

`resolved` makes a revision of a job independent of the registry: a restart reads the same schema.
Values have Confluent's header: a zero byte, and the id of the schema in four bytes.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from jobmanager.core.graph.document_fields import Fields

RESOLVED = "resolved"
"""The name under which the server keeps what it found."""
HEADER_BYTES = 5
_SUBJECT = re.compile(r"[^\s/?#%\x00-\x1f]{1,255}")
_MOST_ID = 2**31 - 1


class SchemaType(StrEnum):
    """As registries name them."""

    AVRO = "AVRO"
    JSON = "JSON"


@dataclass(frozen=True, slots=True)
class ResolvedSchema:
    """A schema as the registry has it. A registry never gives its id to another schema."""

    id: int
    version: int | None
    """Its number in the subject; None: it was asked for by its id, and the subject has not got
    it.
    """
    type: SchemaType
    schema: str
    """The schema as JSON."""
    others: tuple[tuple[int, str], ...] = ()
    """The other schemas of the subject: records may be written with them."""

    @property
    def header(self) -> bytes:
        """What the values that are written with the schema begin with."""
        return b"\x00" + self.id.to_bytes(HEADER_BYTES - 1, "big")

    def document(self) -> dict[str, Any]:
        """As it is kept in a graph."""
        return {
            "id": self.id,
            "version": self.version,
            "type": self.type.value,
            "schema": json.loads(self.schema),
            "others": {str(number): json.loads(text) for number, text in self.others},
        }


@dataclass(frozen=True, slots=True)
class RegistryReference:
    url: str
    subject: str
    version: int | None = None
    """None: the newest when the graph is submitted."""
    id: int | None = None
    user: str | None = None
    password: str | None = None
    register: bool = False
    """Whether the server adds the sink's schema to the registry, if the subject lacks it."""
    resolved: ResolvedSchema | None = None

    def places(self) -> Iterator[tuple[str, str]]:
        """The address, for the rule about allowed paths."""
        yield "registry.url", self.url


def read(fields: Fields, default_subject: str | None, *, is_sink: bool) -> RegistryReference | None:
    """Read the field `registry`; None: there is none. `default_subject`: as producers name the
    subject of a topic's values.
    """
    if not fields.has("registry"):
        return None
    inner = fields.section("registry")
    subject = inner.text("subject", default_subject or "")
    if not subject:
        inner.fault("subject", "missing: with several topics, the subject has to be named")
    elif not _SUBJECT.fullmatch(subject):
        inner.fault("subject", f"{subject!r} is not the name of a subject")
    version = None if inner.raw("version") == "latest" else inner.integer("version", None, least=1)
    number = inner.integer("id", None, least=0, most=_MOST_ID)
    if version is not None and number is not None:
        inner.fault("id", "name the version or the id, and not both")
    user, password = inner.text("user", "") or None, inner.text("password", "") or None
    if (user is None) is not (password is None):
        inner.fault("user", "user and password go together")
    register = inner.flag("register", False)
    if register and not is_sink:
        inner.fault("register", "a source registers nothing: leave register out")
    if register and (version is not None or number is not None):
        inner.fault("register", "a schema that is registered gets its version from the registry")
    resolved = _read_resolved(inner)
    if resolved is not None:
        for name, asked, found in (
            ("version", version, resolved.version),
            ("id", number, resolved.id),
        ):
            if asked not in (None, found):
                inner.fault(
                    RESOLVED,
                    f"{name} {asked} is asked for, and resolved has {name} {found}: remove "
                    "resolved, and the registry is asked again",
                )
    url = _read_url(inner)
    inner.done()
    return RegistryReference(url, subject, version, number, user, password, register, resolved)


def _read_url(fields: Fields) -> str:
    url = fields.text("url").rstrip("/")
    if url and (fault := _url_fault(url)):
        fields.fault("url", fault)
    return url


def _url_fault(url: str) -> str | None:
    wrong = f"{url!r} is not an address such as http://registry:8081"
    try:
        parts = urlsplit(url)
        is_right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return wrong
    if not is_right or re.search(r"[\s%]|\$\{|/\.\.?(/|$)", url):
        return wrong
    if "@" in parts.netloc or parts.query or parts.fragment:
        return (
            "the address has more than host, port and path: name the login in user and password, "
            "which can be a reference to a secret"
        )
    return None


def _read_resolved(fields: Fields) -> ResolvedSchema | None:
    given = fields.raw(RESOLVED)
    if given is None:
        return None
    try:
        return _resolved(given)
    except (KeyError, TypeError, ValueError, AttributeError):
        fields.fault(
            RESOLVED, "the server fills this in when a graph is submitted: leave resolved out"
        )
        return None


def _resolved(given: Mapping[str, Any]) -> ResolvedSchema:
    version = given["version"]
    others = given.get("others") or {}
    found = ResolvedSchema(
        int(given["id"]),
        None if version is None else int(version),
        SchemaType(given["type"]),
        json.dumps(given["schema"]),
        tuple((int(number), json.dumps(schema)) for number, schema in others.items()),
    )
    if not 0 <= found.id <= _MOST_ID:
        raise ValueError(found.id)
    return found
