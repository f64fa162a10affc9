"""Looks up the schemas that a graph takes from schema registries, when the graph is submitted."""

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from jobmanager.core.errors import Fault, InvalidJobGraph
from jobmanager.core.graph.connectors.schema_registry import (
    RegistryReference,
    ResolvedSchema,
    SchemaType,
)
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.graph.schema_pins import WithRegistry, unresolved, with_schemas
from jobmanager.core.secret_references import filled
from jobmanager.core.snapshots.storage_uri import local_path
from jobmanager.files.schema_registry import RegistryRefused, SchemaMissing, SchemaRegistry
from jobmanager.files.secret_lookup import SecretMissing, SecretPlaces
from jobmanager.services.directives import RunSettings


async def resolve_schemas(
    document: Mapping[str, Any], graph: JobGraph, settings: RunSettings, *, may_register: bool
) -> Mapping[str, Any]:
    """Return the document with the schemas of its registries. Nothing is registered unless
    `may_register`: then a sink whose schema would be registered stays without one. Raises
    `InvalidJobGraph` with every schema that could not be had.
    """
    wanted = list(unresolved(graph))
    if not wanted:
        return document
    given = {str(one.get("id")): one.get("schema") for one in document["vertices"]}
    places = _secrets(settings)

    def secret(name: str) -> str:
        return places.find(name, "Provide it there, and submit the graph again")

    faults: list[Fault] = []
    found: dict[str, ResolvedSchema] = {}
    for vertex, connector, reference in wanted:
        look = _Lookup(connector, reference, given.get(vertex), secret, may_register)
        try:
            schema = await asyncio.to_thread(look.run)
        except SecretMissing as error:
            faults.append(Fault(vertex, "registry.password", str(error)))
        except RegistryRefused as error:
            faults.append(Fault(vertex, "registry", str(error)))
        else:
            if schema is not None:
                found[vertex] = schema
    if faults:
        raise InvalidJobGraph(faults)
    return with_schemas(document, found)


class _Lookup:
    """The question of one vertex."""

    def __init__(
        self,
        connector: WithRegistry,
        reference: RegistryReference,
        schema: Any,
        secret: Callable[[str], str],
        may_register: bool,
    ) -> None:
        self._kind = connector.format.schema_type
        self._reference = reference
        self._schema = schema
        self._secret = secret
        self._may_register = may_register

    def run(self) -> ResolvedSchema | None:
        """Raises `RegistryRefused`, `SecretMissing`."""
        asked = replace(self._reference, password=filled(self._reference.password, self._secret))
        registry = SchemaRegistry(asked.url, asked.user, asked.password)
        if asked.register and self._kind is not None:
            return self._registered(registry, self._kind)
        try:
            if asked.id is not None:
                return registry.resolve_id(asked.subject, asked.id)
            return registry.resolve(asked.subject, asked.version)
        except SchemaMissing as error:
            raise SchemaMissing(
                f"{error}. Register the schema of subject {asked.subject!r} first, or correct "
                "subject, version or id; a sink registers its own schema with register: true"
            ) from error

    def _registered(self, registry: SchemaRegistry, kind: SchemaType) -> ResolvedSchema | None:
        schema = self._schema if isinstance(self._schema, str) else json.dumps(self._schema)
        subject = self._reference.subject
        if self._may_register:
            return registry.register(subject, kind, schema)
        try:
            return registry.look_up(subject, kind, schema)
        except SchemaMissing:
            return None


def _secrets(settings: RunSettings) -> SecretPlaces:
    directory = local_path(settings.secrets_dir) if settings.secrets_dir else None
    return SecretPlaces(directory, settings.secrets_command, os.environ)
