"""Describes a vertex in one line, in the words of the document that the user wrote.

`{window: {tumbling: 2s}, key: [auction], aggregate: {revenue: sum(price)}}` becomes
`tumbling 2s, key: auction, revenue = sum(price)`. This module knows no operator: a
field that is added to an operator is shown with its name and its value.
"""

from collections.abc import Mapping, Sequence
from typing import Any

_NOT_SHOWN = frozenset(["id", "op", "inputs", "parallelism", "options"])
"""Fields that are shown elsewhere on the page; `options` can hold passwords."""
_WITHOUT_NAME = frozenset(
    ["connector", "window", "where", "query", "function", "algorithm", "explode"]
)
"""Fields of which only the value is shown."""
_ASSIGNMENTS = frozenset(["aggregate", "select", "add", "columns"])
"""Mappings of a column to an expression."""
_ORDER = (
    *("connector", "description", "window", "where", "query", "function", "algorithm", "explode"),
    *("as", "type", "left", "right", "on", "key", "select", "add", "drop", "aggregate"),
    *("within", "time", "trigger", "evictor", "allowed_lateness", "format", "path", "class"),
    *("host", "port", "rows_per_second", "rows", "columns", "watermark"),
    # inside of a window, a trigger, an evictor, a watermark
    *("tumbling", "sliding", "session", "count", "delta", "column", "every", "threshold", "delay"),
)
"""Fields in order of importance, because the end is cut off where room is short; others follow by
name.
"""
_LAST = ("output", "schema")


def text_of(vertex: Mapping[str, Any]) -> str:
    """Describe a vertex of a document in one line; empty if there is nothing to describe."""
    shown = {
        name: value
        for name, value in vertex.items()
        if name not in _NOT_SHOWN and value is not None
    }
    return ", ".join(_field(name, shown[name]) for name in _ordered(shown))


def _field(name: str, value: Any) -> str:
    if name == "rows" and isinstance(value, list):
        return f"{len(value)} {'row' if len(value) == 1 else 'rows'}"
    if name == "body" and isinstance(value, list):
        value = [one.get("id", "") for one in value if isinstance(one, Mapping)]
    if name in _ASSIGNMENTS and isinstance(value, Mapping):
        columns = ", ".join(_assignment(column, value[column]) for column in value)
        return columns if name in ("aggregate", "select") else f"{name}: {columns}"
    text = _plain(value)
    return text if name in _WITHOUT_NAME else f"{name}: {text}"


def _assignment(column: str, expression: Any) -> str:
    text = _plain(expression)
    return column if text == column else f"{column} = {text}"


def _plain(value: Any) -> str:
    """Format a value without the punctuation of JSON or Python."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return " ".join(_setting(name, value[name]) for name in _ordered(value))
    if isinstance(value, Sequence) and not isinstance(value, str):
        texts = [_plain(one) for one in value]
        return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
    return " ".join(str(value).split())


def _setting(name: str, value: Any) -> str:
    """Format an entry of a mapping inside a field: `every 5s`, or only the name of a switch."""
    if value is True or value == {}:
        return name
    text = _plain(value)
    return f"{name} ({text})" if isinstance(value, Mapping) else f"{name} {text}"


def _ordered(mapping: Mapping[str, Any]) -> list[str]:
    def place(name: str) -> tuple[int, str]:
        if name in _ORDER:
            return _ORDER.index(name), ""
        return len(_ORDER) + (name in _LAST), name

    return sorted(mapping, key=place)
