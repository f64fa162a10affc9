"""Reads the fields of one mapping of a job-graph document and notes every fault.

A reader never raises: a wrong field is noted and gets a stand-in value, so that one pass over a
document finds all its faults.
"""

import difflib
from collections.abc import Iterable, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Any, TypeVar

from jobmanager.core import byte_sizes, durations
from jobmanager.core.errors import Fault

Choice = TypeVar("Choice", bound=StrEnum)
_REQUIRED: Any = object()


class Faults:
    """The faults found so far, in the order in which they were found."""

    def __init__(self) -> None:
        self.found: list[Fault] = []
        self.depth = 0
        """How many loop bodies the reader is inside of."""
        self._outer: str | None = None

    def add(self, vertex: str | None, field: str, message: str) -> None:
        if self._outer is not None:
            vertex = self._outer if vertex is None else f"{self._outer}/{vertex}"
        fault = Fault(vertex, field, message)
        if fault not in self.found:
            self.found.append(fault)

    def within(self, vertex: str | None) -> "Faults":
        """Return a collector for faults of vertices inside of `vertex`, which adds to the same
        list.
        """
        inner = Faults()
        inner.found = self.found
        inner.depth = self.depth + 1
        inner._outer = vertex if self._outer is None else f"{self._outer}/{vertex}"
        return inner


class Fields:
    """A mapping of the document, at `prefix` inside `vertex` (None: the graph itself)."""

    def __init__(
        self, values: Mapping[str, Any], faults: Faults, vertex: str | None, prefix: str = ""
    ) -> None:
        self._values = values
        self._faults = faults
        self._vertex = vertex
        self._prefix = prefix
        self._known: set[str] = set()

    def fault(self, field: str, message: str) -> None:
        self._faults.add(self._vertex, (self._prefix + field).rstrip("."), message)

    def has(self, field: str) -> bool:
        self._known.add(field)
        return self._values.get(field) is not None

    def raw(self, field: str) -> Any:
        self._known.add(field)
        return self._values.get(field)

    def text(self, field: str, default: str = _REQUIRED) -> str:
        value = self._take(field, default, "a text")
        if value is _REQUIRED:
            return ""
        if not isinstance(value, str) or (value is not default and not value.strip()):
            self.fault(field, f"{value!r} is not a text")
            return ""
        return value

    def integer(
        self, field: str, default: int | None = _REQUIRED, *, least: int, most: int = 2**31 - 1
    ) -> int | None:
        value = self._take(field, default, f"a whole number from {least}")
        if value is _REQUIRED or value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            self.fault(field, f"{value!r} is not a whole number from {least} to {most}")
            return None
        return value

    def duration(
        self, field: str, default: str = _REQUIRED, *, zero: bool = False
    ) -> timedelta | None:
        value = self._take(field, default, "a duration such as 10s")
        if value is _REQUIRED:
            return None
        try:
            duration = durations.parse(value) if isinstance(value, str) else None
        except ValueError as error:
            self.fault(field, str(error))
            return None
        if duration is None:
            self.fault(field, f"{value!r} is not a duration: write 500ms, 10s, 5m, 1h or 1d")
        elif not duration and not zero:
            self.fault(field, f"{value!r} must be longer than zero")
            return None
        return duration

    def byte_size(self, field: str, *, least: int, most: int) -> int | None:
        """Read a size in bytes; None: the field is not there, or is faulty."""
        value = self.raw(field)
        if value is None:
            return None
        try:
            if not isinstance(value, str):
                raise ValueError(f"{value!r} is not a size: write 64KB, 128MB or 1GB")
            size = byte_sizes.parse(value)
        except ValueError as error:
            self.fault(field, str(error))
            return None
        if not least <= size <= most:
            between = f"{byte_sizes.render(least)} to {byte_sizes.render(most)}"
            self.fault(field, f"{value!r} is not a size from {between}")
            return None
        return size

    def choice(self, field: str, choices: type[Choice], default: Choice = _REQUIRED) -> Choice:
        first = next(iter(choices))
        value = self._take(field, default, "one of " + ", ".join(choices))
        if value is _REQUIRED:
            return first
        try:
            return choices(value)
        except ValueError:
            self.fault(field, f"{value!r} is not one of {', '.join(choices)}")
            return first

    def flag(self, field: str, default: bool) -> bool:
        value = self._take(field, default, "true or false")
        if not isinstance(value, bool):
            self.fault(field, f"{value!r} is not true or false")
            return default
        return value

    def expressions(self, field: str, *, required: bool = True) -> dict[str, str]:
        """Read a mapping of column names to Spark SQL expressions."""
        value = self._take(field, _REQUIRED if required else {}, "a mapping column: expression")
        if value is _REQUIRED:
            return {}
        if not isinstance(value, Mapping) or (required and not value):
            self.fault(field, f"{value!r} is not a mapping column: expression")
            return {}
        for column, expression in value.items():
            if not isinstance(column, str) or not isinstance(expression, str | int | float):
                self.fault(field, f"{column!r}: {expression!r} is not a Spark SQL expression")
        return {str(column): str(expression) for column, expression in value.items()}

    def names(self, field: str, *, required: bool = False) -> tuple[str, ...]:
        """Read a list of column names; a single name is a list of one."""
        value = self._take(field, _REQUIRED if required else (), "a list of columns")
        if value is _REQUIRED:
            return ()
        listed = [value] if isinstance(value, str) else value
        if not isinstance(listed, list | tuple) or not all(isinstance(n, str) for n in listed):
            self.fault(field, f"{value!r} is not a list of columns")
            return ()
        for name in sorted({n for n in listed if listed.count(n) > 1}):
            self.fault(field, f"column {name!r} is named twice")
        return tuple(listed)

    def settings(self, field: str) -> dict[str, str]:
        value = self._take(field, {}, "a mapping")
        if not isinstance(value, Mapping):
            self.fault(field, f"{value!r} is not a mapping of settings")
            return {}
        return {str(k): _setting(v) for k, v in value.items()}

    def section(self, field: str) -> "Fields":
        """Return the mapping under `field`; an empty mapping if it is missing."""
        value = self._take(field, {}, "a mapping")
        if not isinstance(value, Mapping):
            self.fault(field, f"{value!r} is not a mapping")
            value = {}
        return self.nested(field, value)

    def nested(self, field: str, values: Mapping[str, Any]) -> "Fields":
        """Return a reader of `values`, which are at `field`."""
        return Fields(values, self._faults, self._vertex, f"{self._prefix}{field}.")

    def faults_within(self) -> Faults:
        """Return a collector for faults of vertices inside of this vertex."""
        return self._faults.within(self._vertex)

    def not_yet(self, fields: Iterable[str]) -> None:
        """Refuse fields of the language that this version does not support."""
        for field in fields:
            if self.has(field):
                self.fault(field, f"{field} is not supported by this version of Headgate yet")

    def ignore_rest(self) -> None:
        """Take every field as known, since nothing can tell which fields would be."""
        self._known.update(self._values)

    def done(self) -> None:
        """Note every field that was not read as unknown."""
        for field in self._values:
            if field not in self._known:
                close = difflib.get_close_matches(str(field), self._known, n=1)
                hint = f": did you mean {close[0]!r}?" if close else ""
                self.fault(str(field), f"unknown field {str(field)!r}{hint}")

    def _take(self, field: str, default: Any, what: str) -> Any:
        self._known.add(field)
        value = self._values.get(field)
        if value is not None:
            return value
        if default is _REQUIRED:
            self.fault(field, f"missing: {what} is needed")
        return default


def _setting(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
