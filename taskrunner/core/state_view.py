"""Shows Spark's state of one vertex with the column names that users know.

Spark keeps a row of state as two structs, `key` and `value`. The names in them may repeat
(two sums are both `sum`), so columns are accessed by position: the reader first renames the
fields of both structs to `c0`, `c1`, …, and the expressions here use these names.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from jobmanager.core.durations import milliseconds
from jobmanager.core.graph.vertex import Vertex

_SESSION_START = "sessionStartTime"
_NOTHING = "__dummy__"
HIDDEN = "__headgate_right_"
"""Prefix of the join columns on the right side of a join."""
_ONE_CALL = re.compile(r"\s*(count|sum|min|max)\s*\([^()]*\)\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of one of the two structs."""

    name: str
    type: str
    """Spark's DDL for it."""
    fields: tuple["Field", ...] = ()
    """Of a struct."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the state as users see it."""

    name: str
    type: str
    spark_name: str
    expression: str
    """Spark SQL over the renamed structs."""


@dataclass(frozen=True, slots=True)
class StateView:
    key: tuple[Column, ...]
    value: tuple[Column, ...]
    hashed: tuple[str, ...] | None
    """The expression, over the renamed structs, that Spark hashes to find the partition; None:
    unknown."""
    hashed_columns: tuple[tuple[str, ...], ...] | None
    """The same as names of key columns; the start and the end of a window are two columns."""
    window_ms: int | None = None
    """The length of every window, so that the start determines the end."""

    @property
    def plain_key(self) -> tuple[Column, ...]:
        """The key columns that the user named, without those of the window."""
        return tuple(one for one in self.key if one.name not in _WINDOW_NAMES)


_WINDOW_NAMES = ("window_start", "window_end")


def view_of(
    key: Sequence[Field],
    value: Sequence[Field],
    spread_by: Sequence[str] | None,
    vertex: Vertex | None,
) -> StateView:
    """Builds the view. `spread_by` names the key fields that Spark hashes, which come first."""
    shown = _names_of_key(vertex, key)
    has_key = vertex is None or not vertex.is_grouped_without_key
    columns = tuple(_key_columns(key, value, shown, has_key=has_key))
    values = _value_fields(key, value)
    names = _result_names(vertex, [field for _, field in values])
    return StateView(
        key=columns,
        value=tuple(
            Column(name, field.type, field.name, f"value.c{at}")
            for name, (at, field) in zip(names, values, strict=True)
        ),
        hashed=_hashed(key, spread_by),
        hashed_columns=_hashed_columns(key, spread_by, columns, shown),
        window_ms=_window_ms(vertex),
    )


def _names_of_key(vertex: Vertex | None, key: Sequence[Field]) -> Mapping[str, str]:
    """Maps fields of the key to the graph's names, where Spark uses names of its own."""
    names = vertex.state_key_names if vertex else None
    if names is None or len(names) != len(key):
        return {}
    return {field.name: name for field, name in zip(key, names, strict=True)}


def _key_columns(
    key: Sequence[Field], value: Sequence[Field], shown: Mapping[str, str], *, has_key: bool
) -> Iterator[Column]:
    for at, field in enumerate(key):
        if _is_window(field):
            yield from _window_columns(field, f"key.c{at}")
        elif _is_session(key, value) and field.name == _SESSION_START:
            yield from _window_columns(value[0], "value.c0")
        elif has_key:
            name = shown.get(field.name, field.name)
            yield Column(name, field.type, field.name, f"key.c{at}")


def _window_columns(window: Field, expression: str) -> Iterator[Column]:
    for part in window.fields:
        spark_name = f"{window.name}.{part.name}"
        yield Column(f"window_{part.name}", part.type, spark_name, f"{expression}.{part.name}")


def _value_fields(key: Sequence[Field], value: Sequence[Field]) -> list[tuple[int, Field]]:
    """The fields of the value without repetitions of the key (the window and key columns of a
    session, the join columns of a join's right side) and without placeholders.
    """
    repeated = len(key) if _is_session(key, value) else 0
    return [
        (at, field)
        for at, field in enumerate(value)
        if at >= repeated and not field.name.startswith((HIDDEN, _NOTHING))
    ]


def _is_window(field: Field) -> bool:
    return field.name == "window" and [one.name for one in field.fields] == ["start", "end"]


def _is_session(key: Sequence[Field], value: Sequence[Field]) -> bool:
    """Spark keeps sessions by key and start, and the whole window again in the value."""
    return bool(
        key
        and value
        and key[-1].name == _SESSION_START
        and [one.name for one in value[0].fields] == ["start", "end"]
    )


def _result_names(vertex: Vertex | None, fields: Sequence[Field]) -> list[str]:
    """The graph's names if each field is certain to be one of the results, else Spark's names."""
    if vertex is not None and _is_one_to_one(vertex.results, fields):
        return list(vertex.results)
    return _distinct([field.name for field in fields])


def _is_one_to_one(results: Mapping[str, str], fields: Sequence[Field]) -> bool:
    """Whether each result is one call of a function that keeps one value, which is the result.

    Spark keeps the values in the order of the calls, equal calls once.
    """
    calls = [_ONE_CALL.fullmatch(text) for text in results.values()]
    functions = [call[1].lower() if call else None for call in calls]
    different = {re.sub(r"\s", "", text).lower() for text in results.values()}
    return len(different) == len(results) == len(set(results)) and functions == [
        field.name for field in fields
    ]


def _distinct(names: Sequence[str]) -> list[str]:
    """`sum`, `sum` becomes `sum`, `sum_2`."""
    found: list[str] = []
    for name in names:
        number = 1
        while (name if number == 1 else f"{name}_{number}") in found:
            number += 1
        found.append(name if number == 1 else f"{name}_{number}")
    return found


def _hashed(key: Sequence[Field], spread_by: Sequence[str] | None) -> tuple[str, ...] | None:
    if not _is_prefix(key, spread_by):
        return None
    return tuple(f"key.c{at}" for at in range(len(spread_by or ())))


def _hashed_columns(
    key: Sequence[Field],
    spread_by: Sequence[str] | None,
    columns: Sequence[Column],
    shown: Mapping[str, str],
) -> tuple[tuple[str, ...], ...] | None:
    if not _is_prefix(key, spread_by):
        return None
    hashed = [
        _WINDOW_NAMES if _is_window(field) else (shown.get(field.name, field.name),)
        for field in key[: len(spread_by or ())]
    ]
    known = {one.name for one in columns}
    return tuple(hashed) if all(name in known for names in hashed for name in names) else None


def _is_prefix(key: Sequence[Field], spread_by: Sequence[str] | None) -> bool:
    """Whether `spread_by` is a prefix of the key. State without hashed fields has one partition."""
    return bool(spread_by) and [field.name for field in key][: len(spread_by or ())] == list(
        spread_by or ()
    )


def _window_ms(vertex: Vertex | None) -> int | None:
    size = vertex.window_size if vertex else None
    return None if size is None else milliseconds(size)
