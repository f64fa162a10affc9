"""A job graph as the body of a request."""

import json
from collections.abc import Mapping
from typing import Any

from fastapi import Request

from jobmanager.api.context import ApiContext
from jobmanager.core.errors import Fault, InvalidJobGraph, MalformedRequest
from jobmanager.core.graph import graph_document
from jobmanager.core.json_text import holds_nul
from jobmanager.protocol.graph_text import parse_yaml
from jobmanager.services import artifacts, path_checks

_YAML = ("application/yaml", "application/x-yaml", "text/yaml")
GRAPH_TYPES = ("application/json", *_YAML)
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


async def resolved_document(request: Request, context: ApiContext) -> Mapping[str, Any]:
    """The graph with the ids of its artifacts. Raises `InvalidJobGraph` where one is not there."""
    return await resolved(await document_of(request), context)


async def resolved(document: Mapping[str, Any], context: ApiContext) -> Mapping[str, Any]:
    """The same, of a document. Faults of the graph itself are told with those of its artifacts."""
    faults: list[Fault] = []
    found = document
    try:
        graph = graph_document.parse(document)
        faults += await path_checks.faults_of_graph(context.run_settings.paths, graph)
    except InvalidJobGraph as error:
        faults += error.faults
    try:
        found = await artifacts.resolve_artifacts(
            context.units,
            context.storage.artifacts,
            document,
            context.run_settings,
            context.clock(),
        )
    except InvalidJobGraph as error:
        faults += error.faults
    if faults:
        raise InvalidJobGraph(faults)
    return found


async def document_of(request: Request) -> Mapping[str, Any]:
    body = await request.body()
    kind = request.headers.get("content-type", "application/json")
    kind = kind.partition(";")[0].strip().lower()
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
    if holds_nul(json.dumps(plain).encode()):  # from YAML: JSON with one does not come so far
        raise MalformedRequest("the job graph holds a NUL character")
    return plain
