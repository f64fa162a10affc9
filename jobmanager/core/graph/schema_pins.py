"""Schemas of registries in the document of a graph: which are to be looked up, and where the answer
is kept. See `connectors.schema_registry`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from jobmanager.core.graph.connectors.kafka import KafkaSink, KafkaSource
from jobmanager.core.graph.connectors.schema_registry import (
    RESOLVED,
    RegistryReference,
    ResolvedSchema,
)
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.graph.sources import Source

_FIELD = "registry"
WithRegistry = KafkaSource | KafkaSink


def unresolved(graph: JobGraph) -> Iterator[tuple[str, WithRegistry, RegistryReference]]:
    """The vertices whose schema was not looked up yet. One that was is left alone, so that the
    stored graph of a job, submitted again, has the same schemas.
    """
    for vertex in graph.vertices:
        connector = vertex.connector if isinstance(vertex, Source | Sink) else None
        registry = connector.registry if isinstance(connector, KafkaSource | KafkaSink) else None
        if isinstance(connector, KafkaSource | KafkaSink) and registry and not registry.resolved:
            yield vertex.id, connector, registry


def with_schemas(
    document: Mapping[str, Any], found: Mapping[str, ResolvedSchema]
) -> Mapping[str, Any]:
    """The document with the schemas that were looked up, by vertex."""
    if not found:
        return document

    def filled(vertex: Mapping[str, Any]) -> Mapping[str, Any]:
        schema = found.get(str(vertex.get("id")))
        if schema is None:
            return vertex
        return {**vertex, _FIELD: {**vertex[_FIELD], RESOLVED: schema.document()}}

    return {**document, "vertices": [filled(one) for one in document["vertices"]]}


def without_schemas(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The document as a user writes it: two submissions of one text are the same, although the
    registry has a newer schema by now.
    """

    def emptied(vertex: Any) -> Any:
        section = vertex.get(_FIELD) if isinstance(vertex, Mapping) else None
        if not isinstance(section, Mapping) or RESOLVED not in section:
            return vertex
        kept = {name: value for name, value in section.items() if name != RESOLVED}
        return {**vertex, _FIELD: kept}

    vertices = document.get("vertices")
    if not isinstance(vertices, list):
        return document
    return {**document, "vertices": [emptied(one) for one in vertices]}


def registry_changes(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    """What changes between two `registry` fields of a vertex: names, and what they were and will
    be. Of the schema the fields that differ, and not the whole text.
    """
    for name in dict.fromkeys([*before, *after]):
        if name != RESOLVED and before.get(name) != after.get(name):
            yield f"{_FIELD}.{name}", before.get(name), after.get(name)
    old, new = before.get(RESOLVED) or {}, after.get(RESOLVED) or {}
    for name in ("version", "id", "type"):
        if old.get(name) != new.get(name):
            yield f"{_FIELD}.{RESOLVED}.{name}", old.get(name), new.get(name)
    were, are = _types(old.get("schema")), _types(new.get("schema"))
    for name in dict.fromkeys([*were, *are]):
        if were.get(name) != are.get(name):
            yield f"{_FIELD}.{RESOLVED}.schema.{name}", were.get(name), are.get(name)


def _types(schema: Any) -> dict[str, Any]:
    """The types of the fields of an Avro record, or of the properties of a JSON Schema."""
    if not isinstance(schema, Mapping):
        return {}
    if isinstance(fields := schema.get("fields"), list):
        return {
            str(one["name"]): one.get("type")
            for one in fields
            if isinstance(one, Mapping) and "name" in one
        }
    properties = schema.get("properties")
    return dict(properties) if isinstance(properties, Mapping) else {}
