"""Writes `jobmanager/client/operations.py`: one function for each operation of the OpenAPI
document, and the methods of `Client` and `AsyncClient` made of these functions.

    python -m jobmanager.api.client_types    writes it, as does `make types`

A function has the parameters of its operation: those of the path first, a job graph or a file next,
then by name the parameters of the query and the fields of the body. A test compares the file with
what would be written.
"""

import json
import keyword
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

OPERATIONS = Path(__file__).parents[1] / "client" / "operations.py"
_HEAD = '''"""Every operation of the server, generated from its OpenAPI document: see `make types`.

A function returns the request as a value; `ApiOperations` and `AsyncApiOperations` have a method
for each function, which sends the request.
"""

from collections.abc import Mapping
from typing import Any, Literal

from jobmanager.client import answers
from jobmanager.client.api_call import (
    AnswerForm,
    ApiCall,
    AsyncMethod,
    Method,
    given,
    own_id,
    part,
    texts,
)
from jobmanager.client.server_events import AsyncEvents, Events, ServerEvent'''
_NAMES = {
    "POST /v1/artifacts": "upload_artifact",
    "POST /v1/gc": "collect_garbage",
    "POST /v1/jobs": "submit_job",
    "PATCH /v1/jobs/{jobid}": "cancel_job",
    "GET /v1/jobs/{jobid}/checkpoints/details/{checkpointid}": "get_job_checkpoint_details",
    "POST /v1/jobs/{jobid}/checkpoints": "trigger_checkpoint",
    "POST /v1/jobs/{jobid}/checkpoints/{number}/verify": "verify_checkpoint",
    "POST /v1/jobs/{jobid}/pause": "pause_job",
    "POST /v1/jobs/{jobid}/resume": "resume_job",
    "PATCH /v1/jobs/{jobid}/rescaling": "rescale_job",
    "POST /v1/jobs/{jobid}/savepoints": "trigger_savepoint",
    "POST /v1/jobs/{jobid}/stop": "stop_job",
    "POST /v1/jobs/{jobid}/upgrade": "upgrade_job",
    "GET /v1/jobs/{jobid}/state": "get_job_states",
    "GET /v1/jobs/{jobid}/state/{vertex}/{name}": "get_job_state_rows",
    "GET /v1/jobs/{jobid}/state/{vertex}/{name}/{key}": "get_job_state_key",
    "GET /v1/jobs/{jobid}/state/{vertex}/{name}/key-groups": "get_job_state_key_groups",
    "POST /v1/savepoint-disposal": "trigger_savepoint_disposal",
    "POST /v1/savepoints/adopt": "adopt_savepoint",
    "PATCH /v1/savepoints/{sid}": "label_savepoint",
    "DELETE /v1/savepoints/{sid}": "dispose_savepoint",
    "GET /v1/savepoints/{sid}/state": "get_savepoint_states",
    "GET /v1/savepoints/{sid}/state/{vertex}/{name}": "get_savepoint_state_rows",
    "GET /v1/savepoints/{sid}/state/{vertex}/{name}/{key}": "get_savepoint_state_key",
    "GET /v1/savepoints/{sid}/state/{vertex}/{name}/key-groups": "get_savepoint_state_key_groups",
    "POST /v1/savepoints/{sid}/verify": "verify_savepoint",
    "POST /v1/scripts/describe": "describe_script",
    "POST /v1/tokens": "create_token",
    "DELETE /v1/tokens/{name}": "revoke_token",
    "POST /v1/webhooks": "create_webhook",
    "POST /v1/webhooks/{name}/test": "test_webhook",
}
"""Names that say more than method and path would."""
_REPEATABLE = {
    "upload_artifact",  # the same content is the same artifact
    "collect_garbage",
    "cancel_job",
    "describe_script",
    "label_savepoint",
    "pause_job",
    "resume_job",
    "trigger_savepoint_disposal",
    "verify_checkpoint",
    "verify_savepoint",
}
"""Writes that can be repeated although they carry no id of their own."""
_PATIENCE = {
    "adopt_savepoint": 3600,
    "collect_garbage": 600,
    "describe_script": 300,
    "submit_job": 300,
    "upgrade_job": 300,
    "upload_artifact": 300,
    "verify_checkpoint": 600,
    "verify_savepoint": 600,
}
"""Seconds that an answer may take, where Spark or all files have to be asked."""
_STATE_PATIENCE = 400
_ARGUMENTS = {"aid": "artifact_id", "oid": "operation_id", "sid": "savepoint_id"}
_LINE = 100
_OWN_IDS = ("idempotency-key", "Idempotency-Key", "triggerId")
"""Parameters by which the server recognises a repetition."""
_PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_WIDTH = 100
Schema = Mapping[str, Any]


@dataclass(frozen=True)
class _Argument:
    name: str
    """In Python."""
    wire_name: str
    place: str
    """path, query, header, field, graph, content or files"""
    type: str
    is_required: bool

    @property
    def declaration(self) -> str:
        if self.is_required:
            return f"{self.name}: {self.type}"
        wide = self.type if "None" in self.type.split(" | ") else f"{self.type} | None"
        return f"{self.name}: {wide} = None"

    @property
    def value(self) -> str:
        return f"own_id({self.name})" if self.wire_name in _OWN_IDS else self.name


def text(document: Schema) -> str:
    """Return the source of the module."""
    functions: dict[str, str] = {}
    streams: set[str] = set()
    for method, path, operation in client_operations(document):
        name = _unused(name_of(method, path), path, functions)
        functions[name] = _function(name, method, path, operation, document)
        if "text/event-stream" in _contents(operation):
            streams.add(name)
    classes = [
        _class("ApiOperations", functions, streams, "Method", "Events", "send its request"),
        _class(
            "AsyncApiOperations",
            functions,
            streams,
            "AsyncMethod",
            "AsyncEvents",
            "send its request and are awaited",
        ),
    ]
    return "\n\n\n".join([_HEAD, *functions.values(), *classes]) + "\n"


def client_operations(document: Schema) -> Iterator[tuple[str, str, Schema]]:
    """Return method, path and operation, without what only runners call."""
    for path, operations in sorted(document["paths"].items()):
        for method, operation in sorted(operations.items()):
            if "{runner_id}" not in path:
                yield method.upper(), path, operation


def name_of(method: str, path: str) -> str:
    """Return the name of an operation: method and the words of its path, in the singular before a
    parameter.
    """
    if named := _NAMES.get(f"{method} {path}"):
        return named
    parts = path.removeprefix("/v1").strip("/").split("/")
    words = [
        _singular(word) if following.startswith("{") else word
        for word, following in zip(parts, [*parts[1:], ""], strict=True)
        if not word.startswith("{")
    ]
    return "_".join([method.lower(), *(_snake(word) for word in words)])


def _unused(name: str, path: str, taken: Mapping[str, str]) -> str:
    if name not in taken:
        return name
    last = re.findall(r"{(\w+)}", path)[-1]
    named = f"{name}_by_{_snake(last)}"
    assert named not in taken, f"{path} needs a name of its own in _NAMES"
    return named


def _function(name: str, method: str, path: str, operation: Schema, document: Schema) -> str:
    arguments = list(_arguments(operation, document))
    arguments.sort(key=lambda one: path.find(f"{{{one.wire_name}}}") if one.place == "path" else -1)
    first = [one for one in arguments if one.place == "path"]
    first += [one for one in arguments if one.place in ("graph", "content")]
    by_name = [one for one in arguments if one not in first]
    by_name.sort(key=lambda one: not one.is_required)
    lines = [f"    {one.declaration}," for one in first]
    lines += ["    *,", *(f"    {one.declaration}," for one in by_name)] if by_name else []
    answer = _answer(operation, document)
    head = [f"def {name}(", *lines, f") -> ApiCall[{answer}]:"]
    if not lines:
        head = [f"def {name}() -> ApiCall[{answer}]:"]
    return "\n".join(
        [
            *head,
            *_docstring(operation),
            "    return ApiCall(",
            f'        method="{method}",',
            f"        path={_path(path, arguments)},",
            *_sent(arguments),
            *_settings(name, method, arguments, operation),
            "    )",
        ]
    )


def _arguments(operation: Schema, document: Schema) -> Iterator[_Argument]:
    """Return all arguments. A parameter of the query that the body has as well is left to it."""
    body = operation.get("requestBody")
    sent = list(_body(body["content"], document)) if body is not None else []
    names = {one.name for one in sent}
    found = _parameters(operation, document)
    yield from (one for one in found if one.place != "query" or one.name not in names)
    yield from sent


def _parameters(operation: Schema, document: Schema) -> Iterator[_Argument]:
    for one in operation.get("parameters", ()):
        if one["name"] == "last_event_id":
            continue  # the header says the same
        kind = _type(one.get("schema", {}), document)
        required = bool(one.get("required"))
        yield _Argument(_python(one["name"]), one["name"], one["in"], kind, required)


def _body(content: Schema, document: Schema) -> Iterator[_Argument]:
    if "application/octet-stream" in content:
        yield _Argument("content", "content", "content", "bytes", True)
        return
    if "multipart/form-data" in content:
        schema = _resolved(content["multipart/form-data"]["schema"], document)
        for name in schema.get("properties", {}):
            yield _Argument(_python(name), name, "files", "tuple[str, bytes]", True)
        return
    schema = _resolved(content["application/json"]["schema"], document)
    if "properties" not in schema:
        name = "graph" if "application/yaml" in content else "body"
        yield _Argument(name, name, "graph", "Mapping[str, Any]", True)
        return
    for name, field in schema["properties"].items():
        kind = _type(field, document)
        yield _Argument(_python(name), name, "field", kind, name in schema.get("required", ()))


def _sent(arguments: list[_Argument]) -> Iterator[str]:
    """Return the lines that put the arguments where they are sent."""
    for place, keyword_, function in (
        ("query", "params", "texts"),
        ("header", "headers", "texts"),
        ("field", "json", "given"),
    ):
        here = [one for one in arguments if one.place == place]
        if here:
            yield f"        {keyword_}={function}("
            yield "            {"
            yield from (f'                "{one.wire_name}": {one.value},' for one in here)
            yield "            }"
            yield "        ),"
    for one in arguments:
        if one.place == "graph":
            yield f"        json=dict({one.name}),"
        elif one.place == "content":
            yield "        content=content,"
            yield '        headers={"Content-Type": "application/octet-stream"},'
    files = [one for one in arguments if one.place == "files"]
    if files:
        shown = ", ".join(f'"{one.wire_name}": {one.name}' for one in files)
        yield f"        files={{{shown}}},"


def _settings(
    name: str, method: str, arguments: list[_Argument], operation: Schema
) -> Iterator[str]:
    form = _form(operation)
    if form != "JSON":
        yield f"        form=AnswerForm.{form},"
    has_own_id = any(one.wire_name in _OWN_IDS for one in arguments)
    if method in ("GET", "PUT", "DELETE") or has_own_id or name in _REPEATABLE:
        yield "        is_repeatable=True,"
    patience = _STATE_PATIENCE if "_state" in name else _PATIENCE.get(name)
    if patience is not None and "status" not in name:
        yield f"        timeout={patience},"


def _path(path: str, arguments: list[_Argument]) -> str:
    names = {one.wire_name: one.name for one in arguments if one.place == "path"}
    filled = re.sub(r"{(\w+)}", lambda found: f"{{part({names[found[1]]})}}", path)
    return f'f"{filled}"' if names else f'"{path}"'


def _contents(operation: Schema) -> dict[str, Schema]:
    """Return the forms of successful answers, by media type."""
    found: dict[str, Schema] = {}
    for status, response in sorted(operation["responses"].items()):
        if status.startswith("2"):
            found |= response.get("content", {})
    return found


def _form(operation: Schema) -> str:
    contents = _contents(operation)
    if "text/event-stream" in contents:
        return "EVENTS"
    if "application/json" in contents or not contents:
        return "JSON"
    return "TEXT" if all(one.startswith("text/") for one in contents) else "BYTES"


def _answer(operation: Schema, document: Schema) -> str:
    form = _form(operation)
    if form != "JSON":
        return {"EVENTS": "ServerEvent", "TEXT": "str", "BYTES": "bytes"}[form]
    kinds = [
        _type(response["content"]["application/json"]["schema"], document, "answers.")
        for status, response in sorted(operation["responses"].items())
        if status.startswith("2") and "application/json" in response.get("content", {})
    ]
    return " | ".join(dict.fromkeys(kinds)) or "Any"


def _type(schema: Schema, document: Schema, known: str = "") -> str:
    """Return the Python type. With `known`, shapes are named, as they are in `answers`."""
    match schema:
        case {"$ref": str(where)}:
            name = where.rpartition("/")[2]
            found = _resolved(schema, document)
            if known and ("properties" in found or "enum" in found):
                return f"{known}{name.removesuffix('-Output')}"
            return _type(found, document, known)
        case {"anyOf": [*choices]}:
            return " | ".join(dict.fromkeys(_type(one, document, known) for one in choices))
        case {"enum": [*words]}:
            return f"Literal[{', '.join(json.dumps(word) for word in words)}]"
        case {"const": word}:
            return f"Literal[{json.dumps(word)}]"
        case {"type": "array", "items": inner}:
            return f"list[{_type(inner, document, known)}]"
        case {"type": "object", "additionalProperties": dict(inner)} if inner:
            return f"Mapping[str, {_type(inner, document, known)}]"
        case {"type": "object"}:
            return "Mapping[str, Any]"
        case {"type": str(plain)}:
            return _PLAIN[plain]
        case _:
            return "Any"


def _resolved(schema: Schema, document: Schema) -> Schema:
    if "$ref" in schema:
        found: Schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return found
    if [one for one in schema.get("anyOf", ()) if one == {"type": "null"}]:  # may be left out
        first: Schema = schema["anyOf"][0]
        return _resolved(first, document)
    return schema


def _class(
    name: str, functions: Mapping[str, str], streams: set[str], method: str, stream: str, do: str
) -> str:
    lines = [f"class {name}:", f'    """Methods that {do}, one for each operation."""', ""]
    for one in functions:
        made = stream if one in streams else method
        line = f"    {one} = {made}({one})"
        wrapped = [f"    {one} = {made}(", f"        {one}", "    )"]
        lines += [line] if len(line) <= _LINE else wrapped
    return "\n".join(lines)


def _docstring(operation: Schema) -> list[str]:
    said = operation.get("summary", "").rstrip(".") + "."
    if more := operation.get("description"):
        said += f" {' '.join(more.split())}"
    lines = wrap(f'"""{said}"""', _WIDTH - 4)
    if len(lines) > 1:
        lines = [*wrap(f'"""{said}', _WIDTH - 4), '"""']
    return [f"    {line}" for line in lines]


def _python(name: str) -> str:
    found = _ARGUMENTS.get(name) or _snake(name)
    if re.fullmatch(r"[a-z]+id", found) and found not in ("valid", "grid"):
        found = f"{found[:-2]}_id"
    return f"{found}_" if keyword.iskeyword(found) else found


def _snake(name: str) -> str:
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.replace("-", "_").replace(".", "_"))
    return split.lower()


def _singular(word: str) -> str:
    return "vertex" if word == "vertices" else word.removesuffix("s")
