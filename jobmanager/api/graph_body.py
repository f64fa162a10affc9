"""A job graph as the body of a request."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from fastapi import Request

from jobmanager.api.context import ApiContext
from jobmanager.core.access.callers import Caller
from jobmanager.core.access.graph_rules import check_role_for_graph
from jobmanager.core.errors import BodyTooLarge, Fault, InvalidJobGraph, MalformedRequest
from jobmanager.core.graph import graph_document
from jobmanager.core.json_text import unstorable
from jobmanager.protocol.graph_text import parse_yaml
from jobmanager.services import artifacts, connector_checks, path_checks

_YAML = ("application/yaml", "application/x-yaml", "text/yaml")
GRAPH_TYPES = ("application/json", *_YAML)
MOST_YAML_BYTES = 1024 * 1024
"""YAML takes a hundred times as long to read as JSON."""
GRAPH_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"type": "object"}},
            "application/yaml": {"schema": {"type": "object"}},
        },
    }
}
"""The description of the body in the route's documentation."""


async def resolved_document(
    request: Request, context: ApiContext, caller: Caller
) -> Mapping[str, Any]:
    """Read the graph, and replace its artifacts by their ids. Raises `InvalidJobGraph` where an
    artifact does not exist, and `RoleTooSmall` where the caller may not run such a graph.
    """
    return await resolved(await document_of(request), context, caller)


async def resolved(
    document: Mapping[str, Any], context: ApiContext, caller: Caller
) -> Mapping[str, Any]:
    """Do the same for a document. Faults of the graph are reported together with those of its
    artifacts.
    """
    faults: list[Fault] = []
    found, graph = document, None
    try:
        graph = graph_document.parse(document, is_new=True)
        faults += await path_checks.faults_of_graph(context.run_settings.paths, graph)
        faults += await connector_checks.faults_of_graph(context.run_settings.connectors, graph)
    except InvalidJobGraph as error:
        faults += error.faults
    # Before anything is read or stored: a graph can name an artifact by its path on the server.
    check_role_for_graph(caller.role, caller.name, document, graph)
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
    if kind in _YAML and len(body) > MOST_YAML_BYTES:
        raise BodyTooLarge(
            f"a job graph as YAML may have {MOST_YAML_BYTES} bytes at most: send it as JSON"
        )
    # In a thread: a large text takes seconds, and a leader has to renew its lease meanwhile.
    return await asyncio.to_thread(_document_in, body, kind)


def _document_in(body: bytes, kind: str) -> Mapping[str, Any]:
    try:
        document = parse_yaml(body) if kind in _YAML else json.loads(body)
    except (ValueError, RecursionError) as error:
        shown = " ".join(str(error).split())
        language = "YAML" if kind in _YAML else "JSON"
        raise MalformedRequest(f"the body is not {language}: {shown}") from error
    if not isinstance(document, dict):
        raise MalformedRequest("the body is not a job graph: a mapping with name and vertices")
    try:
        # YAML has dates and numbers that JSON does not have, and Postgres stores JSON.
        plain: dict[str, Any] = json.loads(json.dumps(document, allow_nan=False, default=str))
    except (ValueError, TypeError, RecursionError) as error:
        raise MalformedRequest(f"the job graph cannot be kept as JSON: {error}") from error
    if found := unstorable(json.dumps(plain).encode()):  # only from YAML
        raise MalformedRequest(f"the job graph contains {found}")
    return plain
