"""Where a graph may refer to secrets: in options of sources and sinks, and in the fields that their
connector takes secrets in. Anywhere else a secret would come out as data, or be visible to others.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from jobmanager.core import secret_references
from jobmanager.core.graph.connectors import registry
from jobmanager.core.graph.connectors.connector import Connector
from jobmanager.core.graph.document_fields import Faults

_KINDS: Mapping[str, Mapping[str, type[Connector]]] = {
    "source": registry.SOURCES,
    "sink": registry.SINKS,
}


def check(document: Mapping[str, Any], faults: Faults) -> None:
    """Note references that are not right, and those in other places."""
    for name, value in document.items():
        if name != "vertices":
            for where, message in _faults(value, str(name), ()):
                faults.add(None, where, message)
    vertices = document.get("vertices")
    for vertex in vertices if isinstance(vertices, list) else ():
        if isinstance(vertex, Mapping):
            named = vertex.get("id")
            allowed = _fields_for_secrets(vertex)
            for field, value in vertex.items():
                for where, message in _faults(value, str(field), allowed):
                    faults.add(named if isinstance(named, str) else None, where, message)


def _fields_for_secrets(vertex: Mapping[str, Any]) -> tuple[str, ...]:
    known = _KINDS.get(str(vertex.get("op")), {})
    connector = known.get(str(vertex.get("connector")))
    if connector is None:
        return ("options",) if known else ()
    return ("options", *connector.secret_fields)


def _faults(value: Any, field: str, allowed: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for where, text in secret_references.texts_in(value, field):
        if not secret_references.has_reference(text):
            continue
        if field not in allowed:
            yield (
                where,
                (
                    "a secret cannot be used here: refer to secrets in options of sources and sinks"
                    + (f", or in {', '.join(allowed[1:])}" if allowed[1:] else "")
                ),
            )
        elif message := secret_references.fault(text):
            yield where, message
