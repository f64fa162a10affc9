"""Checks that the user functions which a graph names exist, without importing anything."""

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from jobmanager.core.errors import Fault
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.graph.module_names import ModuleNames
from jobmanager.core.graph.vertex import Vertex

FindModule = Callable[[str], ModuleNames | None]
"""Returns the names in a module; None: there is no such module."""


@dataclass(frozen=True, slots=True)
class Reference:
    vertex: str
    field: str
    module: str
    name: str


def references(graph: JobGraph) -> list[Reference]:
    """Return every `module:name` in the graph, in the order of its vertices."""
    return [one for vertex in graph.every_vertex() for one in _in(vertex, vertex.id)]


def faults(graph: JobGraph, known: FindModule, modules: Callable[[], list[str]]) -> list[Fault]:
    """Return a fault for each reference that would not be found when the job runs. `modules` are
    the modules of the job's artifacts, from which similar names are suggested.
    """
    return [
        Fault(one.vertex, one.field, message)
        for one in references(graph)
        if (message := _fault(one, known(one.module), modules))
    ]


def _fault(
    one: Reference, module: ModuleNames | None, modules: Callable[[], list[str]]
) -> str | None:
    if module is None:
        close = difflib.get_close_matches(one.module, modules(), n=3)
        hint = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
        return (
            f"there is no module {one.module!r} in the job's artifacts, and no module of that name "
            f"is installed: "
            f"{hint}upload it and name it in `artifacts`"
        )
    if module.error is not None:
        return f"module {one.module!r} is not Python: {module.error}"
    first = one.name.partition(".")[0]
    if module.has(first):
        return None
    close = difflib.get_close_matches(first, sorted(module.names), n=3)
    hint = f": did you mean {' or '.join(map(repr, close))}?" if close else ""
    return f"module {one.module!r} has no {first!r} at its top level{hint}"


def _in(value: Any, vertex: str) -> Iterator[Reference]:
    """Return the references of a vertex and its connector. Vertices in the body of a loop are
    checked separately.
    """
    if isinstance(value, tuple):
        for one in value:
            if not isinstance(one, Vertex):
                yield from _in(one, vertex)
    if not is_dataclass(value) or isinstance(value, type):
        return
    for field in fields(value):
        held = getattr(value, field.name)
        if field.name == "function" and isinstance(held, str) and ":" in held:
            module, _, name = held.partition(":")
            # in a graph a connector's reference is called class
            called = "function" if isinstance(value, Vertex) else "class"
            yield Reference(vertex, called, module, name)
        else:
            yield from _in(held, vertex)
