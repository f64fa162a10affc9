"""A job graph as the body of a request."""

import json
from collections.abc import Mapping
from typing import Any

from fastapi import Request

from jobmanager.core.errors import MalformedRequest
from jobmanager.protocol.graph_text import parse_yaml

_YAML = ("application/yaml", "application/x-yaml", "text/yaml")
GRAPH_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"type": "object"}},
            "application/yaml": {"schema": {"type": "object"}},
        },
    }
}
"""What the body is, for the route's documentation."""


async def document_of(request: Request) -> Mapping[str, Any]:
    body = await request.body()
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip()
    try:
        document = parse_yaml(body) if kind in _YAML else json.loads(body)
    except (ValueError, RecursionError) as error:
        shown = " ".join(str(error).split())
        language = "YAML" if kind in _YAML else "JSON"
        raise MalformedRequest(f"the body is not {language}: {shown}") from error
    if not isinstance(document, dict):
        raise MalformedRequest("the body is not a job graph: a mapping with name and vertices")
    try:
        # YAML has dates and numbers that JSON has not; Postgres keeps JSON.
        plain: dict[str, Any] = json.loads(json.dumps(document, allow_nan=False, default=str))
    except (ValueError, TypeError, RecursionError) as error:
        raise MalformedRequest(f"the job graph cannot be kept as JSON: {error}") from error
    if "\\u0000" in json.dumps(plain):
        raise MalformedRequest("the job graph holds a NUL character")
    return plain
