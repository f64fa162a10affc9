"""Parameters of algorithms and pipeline stages: names, defaults and limits."""

import difflib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobmanager.core.graph.document_fields import Fields
from jobmanager.core.graph.inputs import Input
from jobmanager.core.ids import VertexId


@dataclass(frozen=True, slots=True)
class Whole:
    name: str
    default: int | None
    """None: the parameter is required."""
    least: int = 1


@dataclass(frozen=True, slots=True)
class Real:
    name: str
    default: float | None
    least: float = 0.0
    most: float = float("inf")


@dataclass(frozen=True, slots=True)
class Flag:
    name: str
    default: bool


@dataclass(frozen=True, slots=True)
class Text:
    """A column or an expression. Required."""

    name: str


@dataclass(frozen=True, slots=True)
class Columns:
    """A list of columns. Required."""

    name: str


Parameter = Whole | Real | Flag | Text | Columns


def read(fields: Fields, parameters: Sequence[Parameter]) -> dict[str, Any]:
    """Read the value of each parameter; a wrong value is noted and replaced by a stand-in."""
    return {parameter.name: _read(fields, parameter) for parameter in parameters}


def _read(fields: Fields, parameter: Parameter) -> Any:
    match parameter:
        case Whole(name, None, least):
            return fields.integer(name, least=least) or least
        case Whole(name, default, least):
            value = fields.integer(name, default, least=least)
            return default if value is None else value
        case Real():
            return _real(fields, parameter)
        case Flag(name, default):
            value = fields.raw(name)
            if value is not None and not isinstance(value, bool):
                fields.fault(name, f"{value!r} is not true or false")
            return value if isinstance(value, bool) else default
        case Text(name):
            return fields.text(name)
        case Columns(name):
            return fields.names(name, required=True)


def _real(fields: Fields, parameter: Real) -> float:
    value = fields.raw(parameter.name)
    stand_in = parameter.least if parameter.default is None else parameter.default
    limits = f"from {parameter.least:g}"
    if parameter.most != float("inf"):
        limits += f" to {parameter.most:g}"
    if value is None:
        if parameter.default is None:
            fields.fault(parameter.name, f"missing: a number {limits} is needed")
        return stand_in
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not parameter.least <= value <= parameter.most or value == float("inf"):
        fields.fault(parameter.name, f"{value!r} is not a number {limits}")
        return stand_in
    return float(value)


def one_named(fields: Fields, field: str, value: Any, known: Collection[str]) -> str | None:
    """Return the single key of `{name: {…}}`, which must be known; None: a fault was noted."""
    if not isinstance(value, Mapping) or len(value) != 1:
        fields.fault(field, f"{value!r} is not one of {', '.join(known)}, with its parameters")
        return None
    name = str(next(iter(value)))
    if name in known:
        return name
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {str(close[0])!r}?" if close else f"use one of {', '.join(known)}"
    fields.fault(field, f"there is no {field.partition('[')[0].rstrip('s')} {name!r}: {hint}")
    return None


def input_id(fields: Fields, field: str, inputs: tuple[Input, ...]) -> VertexId | None:
    """Return the input that the field names; None: the field is missing or wrong."""
    if not fields.has(field):
        return None
    name = fields.text(field)
    ids = [one.vertex for one in inputs]
    if name and name not in ids:
        fields.fault(field, f"{name!r} is not one of the inputs: {', '.join(ids) or 'none'}")
    return VertexId(name)
