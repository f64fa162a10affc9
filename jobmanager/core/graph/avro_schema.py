"""Avro schemas in a job graph: whether a schema is one, and which columns a record of it has.

Spark reads and writes the records themselves. What is checked here is what a user can get wrong:
the JSON, the kinds of types, names that are used and not defined. Spark may still refuse a schema
that passes.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_PLAIN = frozenset(["null", "boolean", "int", "long", "float", "double", "bytes", "string"])
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FULL_NAME = re.compile(rf"{_NAME.pattern}(\.{_NAME.pattern})*")


class InvalidAvroSchema(ValueError):
    """A schema is not an Avro schema, or not one of a record; the message says why."""


@dataclass(frozen=True, slots=True)
class AvroField:
    name: str
    type: str
    """The type as JSON, in one spelling: two fields of the same text have the same type."""
    is_nullable: bool
    has_default: bool


@dataclass(frozen=True, slots=True)
class AvroRecord:
    """The schema of a record."""

    text: str
    """The schema as JSON."""
    fields: tuple[AvroField, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.fields)

    def with_default(self, name: str, kind: str, default: Any) -> str:
        """The same schema, as JSON, with one more field, which gets its default wherever a record
        was written without the field.
        """
        schema = json.loads(self.text)
        schema["fields"].append({"name": name, "type": kind, "default": default})
        return json.dumps(schema)


def parse(given: Any) -> AvroRecord:
    """Read the schema of a record: a mapping, or JSON. Raises `InvalidAvroSchema`."""
    schema = _from_json(given) if isinstance(given, str) else given
    if not isinstance(schema, Mapping) or schema.get("type") != "record":
        raise InvalidAvroSchema(
            "the schema has to be that of a record: "
            '{"type": "record", "name": …, "fields": [{"name": …, "type": …}, …]}'
        )
    _Checker().check(schema, "", "the schema")
    return AvroRecord(json.dumps(schema), tuple(_fields(schema)))


def _from_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidAvroSchema(f"an Avro schema is JSON, and this text is not: {error}") from error


def _fields(schema: Mapping[str, Any]) -> Iterator[AvroField]:
    for field in schema["fields"]:
        kind = field["type"]
        branches = kind if isinstance(kind, list) else [kind]
        told = json.dumps(kind, sort_keys=True)
        yield AvroField(str(field["name"]), told, "null" in branches, "default" in field)


class _Checker:
    """Walks over a schema, with the names that were defined so far."""

    def __init__(self) -> None:
        self._defined: set[str] = set()

    def check(self, kind: Any, namespace: str, where: str) -> None:
        match kind:
            case str():
                if kind not in _PLAIN and self._full(kind, namespace) not in self._defined:
                    raise InvalidAvroSchema(
                        f"{where} has the type {kind!r}, which is neither one of Avro's types nor "
                        "a name that was defined before"
                    )
            case list():
                self._check_union(kind, namespace, where)
            case Mapping():
                self._check_complex(kind, namespace, where)
            case _:
                raise InvalidAvroSchema(f"{where} has no type, but {kind!r}")

    def _check_union(self, branches: list[Any], namespace: str, where: str) -> None:
        if not branches:
            raise InvalidAvroSchema(f"{where} is a union of no types")
        for one in branches:
            if isinstance(one, list):
                raise InvalidAvroSchema(f"{where} is a union inside of a union")
            self.check(one, namespace, where)

    def _check_complex(self, kind: Mapping[str, Any], namespace: str, where: str) -> None:
        match kind.get("type"):
            case "record":
                self._check_record(kind, namespace, where)
            case "enum":
                self._define(kind, namespace, where)
                symbols = kind.get("symbols")
                if not isinstance(symbols, list) or not symbols:
                    raise InvalidAvroSchema(f"{where} is an enum without symbols")
            case "fixed":
                self._define(kind, namespace, where)
                if not isinstance(kind.get("size"), int):
                    raise InvalidAvroSchema(f"{where} is fixed without a size")
            case "array":
                self.check(kind.get("items"), namespace, f"{where}[]")
            case "map":
                self.check(kind.get("values"), namespace, f"{where}{{}}")
            case inner:
                self.check(inner, namespace, where)

    def _check_record(self, kind: Mapping[str, Any], namespace: str, where: str) -> None:
        inside = self._define(kind, namespace, where)
        fields = kind.get("fields")
        if not isinstance(fields, list) or not fields:
            raise InvalidAvroSchema(f"{where} is a record without fields")
        seen: set[str] = set()
        for field in fields:
            name = field.get("name") if isinstance(field, Mapping) else None
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise InvalidAvroSchema(f"{name!r} in {where} is not the name of a field")
            if name.lower() in seen:
                raise InvalidAvroSchema(
                    f"{where} has the field {name!r} twice (Spark takes upper and lower case alike)"
                )
            seen.add(name.lower())
            self.check(field.get("type"), inside, f"field {name!r}")

    def _define(self, kind: Mapping[str, Any], namespace: str, where: str) -> str:
        """Note the name of a type; returns the namespace inside of the type."""
        name = kind.get("name")
        if not isinstance(name, str) or not _FULL_NAME.fullmatch(name):
            raise InvalidAvroSchema(f"{where} is of type {kind['type']} and has no name")
        given = kind.get("namespace")
        full = self._full(name, given if isinstance(given, str) else namespace)
        self._defined.add(full)
        return full.rpartition(".")[0]

    def _full(self, name: str, namespace: str) -> str:
        return name if "." in name or not namespace else f"{namespace}.{name}"
