"""A job graph as the body of a request."""

import asyncio
from collections.abc import Mapping
from typing import Any

from fastapi import Request

from jobmanager.api.context import ApiContext
from jobmanager.core import runner_sharing
from jobmanager.core.access.callers import Caller
from jobmanager.core.access.graph_rules import check_role_for_graph
from jobmanager.core.errors import Fault, InvalidJobGraph
from jobmanager.core.graph import graph_document
from jobmanager.services import artifacts, connector_checks, path_checks, schema_registries
from jobmanager.services.graph_texts import document_in

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
"""The description of the body in the route's documentation."""


async def resolved_document(
    request: Request, context: ApiContext, caller: Caller, *, is_dry: bool = False
) -> Mapping[str, Any]:
    """Read the graph, replace its artifacts by their ids, and look up its schemas in their
    registries. Raises `InvalidJobGraph` where an artifact or a schema does not exist, and
    `RoleTooSmall` where the caller may not run such a graph. `is_dry`: nothing is added to a
    registry.
    """
    return await resolved(await document_of(request), context, caller, is_dry=is_dry)


async def resolved(
    document: Mapping[str, Any], context: ApiContext, caller: Caller, *, is_dry: bool = False
) -> Mapping[str, Any]:
    """Do the same for a document. Faults of the graph are reported together with those of its
    artifacts.
    """
    graph_document.check_depth(document)  # first: what looks for other faults calls itself as deep
    faults: list[Fault] = []
    found, graph = document, None
    try:
        graph = graph_document.parse(document, is_new=True)
        faults += await path_checks.faults_of_graph(context.run_settings.paths, graph)
        faults += await connector_checks.faults_of_graph(context.run_settings.connectors, graph)
        faults += runner_sharing.faults(document, graph, context.run_settings.sharing)
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
    if faults or graph is None:
        raise InvalidJobGraph(faults)
    # Only now: a registry that is not allowed is not asked, and nothing is registered for a graph
    # that is refused.
    found = await schema_registries.resolve_schemas(
        found, graph, context.run_settings, may_register=not is_dry
    )
    graph_document.parse(found, is_new=True)  # what the schemas say may be wrong for the graph
    return found


async def document_of(request: Request) -> Mapping[str, Any]:
    body = await request.body()
    kind = request.headers.get("content-type", "application/json")
    kind = kind.partition(";")[0].strip().lower()
    return await asyncio.to_thread(document_in, body, "the body", is_yaml=kind in _YAML)
