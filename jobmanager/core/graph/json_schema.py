"""Columns of a JSON Schema, as Spark DDL, as far as a schema says what Spark needs to know."""

import json
from collections.abc import Mapping
from typing import Any

_PLAIN = {"string": "STRING", "integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN"}
_FORMATS = {"date-time": "TIMESTAMP", "date": "DATE"}


class NoColumns(ValueError):
    """A JSON Schema does not say which columns its values have; the message says why."""


def columns_of(text: str) -> str:
    """The properties of an object as DDL. Raises `NoColumns`."""
    schema = json.loads(text)
    if not isinstance(schema, Mapping) or _kind(schema, "the schema") != "object":
        raise NoColumns("the JSON Schema is not that of an object")
    return ", ".join(_columns(schema, "the schema", " "))


def needed_properties(text: str) -> tuple[str, ...]:
    """The properties without which a value is not as the schema says."""
    schema = json.loads(text)
    found = schema.get("required", []) if isinstance(schema, Mapping) else []
    return tuple(one for one in found if isinstance(one, str)) if isinstance(found, list) else ()


def allowed_properties(text: str) -> tuple[str, ...] | None:
    """All properties that a value can have; None: any."""
    schema = json.loads(text)
    if not isinstance(schema, Mapping) or schema.get("additionalProperties") is not False:
        return None
    return tuple(schema.get("properties") or {})


def _columns(schema: Mapping[str, Any], where: str, between: str) -> list[str]:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        raise NoColumns(f"{where} is an object without properties")
    return [
        f"`{name.replace('`', '``')}`{between}{_type(one, f'property {name!r}')}"
        for name, one in properties.items()
    ]


def _type(schema: Any, where: str) -> str:
    if not isinstance(schema, Mapping):
        raise NoColumns(f"{where} may be anything")
    kind = _kind(schema, where)
    if kind == "object":
        return f"STRUCT<{', '.join(_columns(schema, where, ': '))}>"
    if kind == "array":
        return f"ARRAY<{_type(schema.get('items'), f'{where}[]')}>"
    if kind == "string" and schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    if kind not in _PLAIN:
        raise NoColumns(f"{where} has the type {kind!r}, for which Spark has no column")
    return _PLAIN[kind]


def _kind(schema: Mapping[str, Any], where: str) -> str:
    given = schema.get("type")
    if given is None and "oneOf" in schema:
        branches = [one for one in schema["oneOf"] if one != {"type": "null"}]
        if len(branches) == 1 and isinstance(branches[0], Mapping) and "type" in branches[0]:
            given = branches[0]["type"]
    kinds = [one for one in given if one != "null"] if isinstance(given, list) else [given]
    if len(kinds) != 1 or not isinstance(kinds[0], str):
        raise NoColumns(f"{where} has no single type")
    return kinds[0]
