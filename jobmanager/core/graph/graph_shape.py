"""Faults of a graph's shape: how vertices are connected, whatever they do."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from jobmanager.core.graph.document_fields import Faults
from jobmanager.core.graph.inputs import Input
from jobmanager.core.graph.operator_entry import Arity
from jobmanager.core.graph.operators import OPERATORS

_ID = re.compile(r"[a-z][a-z0-9_]{0,62}")


class GraphShape:
    """Ids, operators and inputs of the vertices, as far as they could be read."""

    def __init__(self) -> None:
        self.vertices: list[tuple[str, str, Sequence[Input]]] = []

    def add(self, vertex_id: str, op: str, inputs: Sequence[Input]) -> None:
        self.vertices.append((vertex_id, op, inputs))


def check(shape: GraphShape, faults: Faults) -> bool:
    """Note the shape's faults; return whether its edges can be followed."""
    before = len(faults.found)
    ids = [vertex_id for vertex_id, _, _ in shape.vertices]
    for twice in sorted({one for one in ids if ids.count(one) > 1}):
        faults.add(twice, "id", f"{twice!r} is the id of {ids.count(twice)} vertices")
    for vertex_id, op, inputs in shape.vertices:
        _check_inputs(vertex_id, op, inputs, ids, faults)
    _check_usage(shape, faults)
    _check_cycles(shape, faults)
    return len(faults.found) == before


def check_body(
    shape: GraphShape, given: Sequence[str], results: Sequence[str], faults: Faults
) -> bool:
    """Do the same for the body of a loop, whose inputs are the vertices `given` and whose results
    are the vertices `results`; without `results`, all vertices that no other vertex uses.
    """
    before = len(faults.found)
    ids = [vertex_id for vertex_id, _, _ in shape.vertices]
    for twice in sorted({one for one in ids if ids.count(one) > 1}):
        faults.add(twice, "id", f"{twice!r} is the id of {ids.count(twice)} vertices")
    for vertex_id, op, inputs in shape.vertices:
        if vertex_id in given:
            faults.add(
                vertex_id, "id", f"{vertex_id!r} is an input of the loop: choose another name"
            )
        if op in ("source", "sink"):
            faults.add(vertex_id, "op", f"a body has no {op}: put it outside of the loop")
        else:
            _check_inputs(vertex_id, op, inputs, [*ids, *given], faults)
    for result in results:
        if result not in ids:
            faults.add(None, "body", f"there is no vertex {result!r} in the body")
    for vertex_id in unused(shape) if results else ():
        if vertex_id not in results:
            faults.add(vertex_id, "id", "nothing uses this vertex: drop it")
    if not any(one.vertex in given for _, _, inputs in shape.vertices for one in inputs):
        faults.add(
            None, "body", f"the body uses none of the loop's inputs: {', '.join(given) or 'none'}"
        )
    _check_cycles(shape, faults)
    return len(faults.found) == before


def unused(shape: GraphShape) -> list[str]:
    """Return the vertices that no other vertex uses."""
    used = {one.vertex for _, _, inputs in shape.vertices for one in inputs}
    return [vertex_id for vertex_id, _, _ in shape.vertices if vertex_id not in used]


def vertex_id(document: Mapping[str, Any], place: str, faults: Faults) -> str:
    """Return the id of the vertex at `place`; if it has no valid id, a name for messages."""
    found = document.get("id")
    if isinstance(found, str) and _ID.fullmatch(found):
        return found
    stand_in = found if isinstance(found, str) and found else place
    faults.add(
        stand_in,
        "id",
        "missing: every vertex needs an id"
        if found is None
        else f"{found!r} is not an id: lower-case letters, digits and _, a letter first, "
        "at most 63 characters",
    )
    return stand_in


def _check_inputs(
    vertex_id: str, op: str, inputs: Sequence[Input], ids: Sequence[str], faults: Faults
) -> None:
    arity = OPERATORS[op].arity if op in OPERATORS else Arity.SOME
    if arity is Arity.NONE and inputs:
        faults.add(vertex_id, "inputs", f"a {op} has no inputs")
    if arity is not Arity.NONE and not inputs:
        faults.add(vertex_id, "inputs", f"missing: a {op or 'vertex'} needs an input")
    if arity is Arity.ONE and len(inputs) > 1:
        faults.add(
            vertex_id, "inputs", f"a {op} has one input, not {len(inputs)}: put a union before it"
        )
    if arity is Arity.TWO and inputs and len(inputs) != 2:
        faults.add(vertex_id, "inputs", f"a {op} has two inputs, not {len(inputs)}")
    for one in inputs:
        if one.vertex not in ids:
            faults.add(vertex_id, "inputs", f"there is no vertex {one.vertex!r}")


def _check_usage(shape: GraphShape, faults: Faults) -> None:
    used = {one.vertex for _, _, inputs in shape.vertices for one in inputs}
    ops = {op for _, op, _ in shape.vertices}
    for vertex_id, op, _ in shape.vertices:
        if op == "sink" and vertex_id in used:
            faults.add(vertex_id, "id", "a sink cannot be the input of another vertex")
        if op != "sink" and vertex_id not in used:
            faults.add(vertex_id, "id", "nothing uses this vertex: connect it to a sink or drop it")
    for needed in ("source", "sink"):
        if needed not in ops:
            faults.add(None, "vertices", f"the graph has no {needed}")


def _check_cycles(shape: GraphShape, faults: Faults) -> None:
    for cycle in _cycles(shape):
        faults.add(cycle[0], "inputs", "the graph has a cycle: " + " -> ".join([*cycle, cycle[0]]))


def _cycles(shape: GraphShape) -> list[list[str]]:
    """Return each cycle once, as the ids along it."""
    inputs = {vertex_id: [one.vertex for one in into] for vertex_id, _, into in shape.vertices}
    done: set[str] = set()
    found: list[list[str]] = []

    def walk(vertex_id: str, path: list[str]) -> None:
        if vertex_id in path:
            found.append(path[path.index(vertex_id) :][::-1])
        elif vertex_id not in done and vertex_id in inputs:
            for one in inputs[vertex_id]:
                walk(one, [*path, vertex_id])
            done.add(vertex_id)

    for vertex_id in inputs:
        walk(vertex_id, [])
    return found
