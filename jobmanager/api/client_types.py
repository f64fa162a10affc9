"""Writes `jobmanager/client/answers.py`, the types of the client's answers, from the OpenAPI
document; and `jobmanager/client/operations.py`, by `client_operations`.

    python -m jobmanager.api.client_types    after changing a shape, or `make types`

The client may not import the server, so its types are generated as source text. A test compares
the file with what would be written.
"""

import json
import keyword
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import wrap
from typing import Any

from jobmanager.api.shapes.events import EVENT_DATA
from jobmanager.api.shapes.problems import Problem
from jobmanager.api.shapes.shape import ref_of

ANSWERS = Path(__file__).parents[1] / "client" / "answers.py"
_HEAD = '''"""The shapes of the answers, generated from the API's own: `make types` writes it.

The names are those of the OpenAPI document. The server may add fields.
"""

from typing import Any, Literal, NotRequired, TypedDict'''
_PLAIN = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
}
_WIDTH = 100
Schema = Mapping[str, Any]


def text(document: Schema) -> str:
    """Return the source of the module: every shape in an answer, after the shapes it refers to."""
    written: dict[str, str] = {}
    for schema in _answers(document):
        _write(schema, document["components"]["schemas"], written)
    return "\n\n\n".join([_HEAD, *written.values()]) + "\n"


def _answers(document: Schema) -> Iterator[Schema]:
    """Return the schemas of successful JSON answers, without the routes that only runners call;
    then those of problems, and of the data of events.
    """
    for path, operations in sorted(document["paths"].items()):
        for _, operation in sorted(operations.items()):
            for status, response in sorted(operation["responses"].items()):
                found = response.get("content", {}).get("application/json")
                if found and status.startswith("2") and "{runner_id}" not in path:
                    yield found["schema"]
    for shape in (Problem, *EVENT_DATA):
        yield {"$ref": ref_of(shape)}


def _write(schema: Schema, known: Schema, written: dict[str, str]) -> None:
    for name in _named(schema):
        if name not in written:
            written[name] = ""
            _write(known[name], known, written)
            written[name] = written.pop(name) or _definition(_python_name(name), known[name])


def _named(schema: Any) -> Iterator[str]:
    """Return the names of the shapes that a schema refers to."""
    match schema:
        case {"$ref": str(where)}:
            yield where.rpartition("/")[2]
        case dict():
            for inner in schema.values():
                yield from _named(inner)
        case list():
            for inner in schema:
                yield from _named(inner)


def _definition(name: str, schema: Schema) -> str:
    if "enum" in schema:
        words = "".join(f"    {json.dumps(word)},\n" for word in schema["enum"])
        return f"{name} = Literal[\n{words}]"
    if "anyOf" in schema or schema.get("type") == "array":
        return f"{name} = {_type(schema)}"
    fields = schema.get("properties", {})
    types = {field: _field_type(field, schema) for field in fields}
    if all(field.isidentifier() and not keyword.iskeyword(field) for field in fields):
        lines = [f"class {name}(TypedDict):", *_docstring(schema, before_fields=bool(fields))]
        for field, type_ in types.items():
            lines += [f"    {field}: {type_}", *_docstring(fields[field])]
        return "\n".join(lines)
    lines = [f"{name} = TypedDict(", f'    "{name}",', "    {"]
    for field, type_ in types.items():
        lines += [*_comment(fields[field]), f'        "{field}": {type_},']
    return "\n".join([*lines, "    },", ")"])


def _field_type(field: str, schema: Schema) -> str:
    found = _type(schema["properties"][field])
    return found if field in schema.get("required", ()) else f"NotRequired[{found}]"


def _type(schema: Schema) -> str:
    match schema:
        case {"$ref": str(where)}:
            return _python_name(where.rpartition("/")[2])
        case {"anyOf": [*choices]}:
            return " | ".join(_type(one) for one in choices)
        case {"enum": [*words]}:
            return f"Literal[{', '.join(json.dumps(word) for word in words)}]"
        case {"const": word}:
            return f"Literal[{json.dumps(word)}]"
        case {"type": "array", "items": inner}:
            return f"list[{_type(inner)}]"
        case {"type": "object", "additionalProperties": dict(inner)}:
            return f"dict[str, {_type(inner)}]"
        case {"type": "object"}:
            return "dict[str, Any]"
        case {"type": str(plain)}:
            return _PLAIN[plain]
        case _:
            return "Any"


def _python_name(name: str) -> str:
    """Drop the suffix of a shape that is both sent and answered, and so has two schemas; the schema
    of the answer is used here.
    """
    return name.removesuffix("-Output")


def _docstring(schema: Schema, *, before_fields: bool = False) -> list[str]:
    if "description" not in schema:
        return []
    lines = wrap(f'"""{schema["description"]}"""', _WIDTH - 4)
    return [f"    {line}" for line in lines] + ([""] if before_fields else [])


def _comment(schema: Schema) -> list[str]:
    return [f"        # {line}" for line in wrap(schema.get("description", ""), _WIDTH - 10)]


def _main() -> None:
    from jobmanager.api import client_operations
    from jobmanager.api.app import make_app

    document = make_app().openapi()
    ANSWERS.write_text(text(document))
    client_operations.OPERATIONS.write_text(client_operations.text(document))


if __name__ == "__main__":
    _main()
