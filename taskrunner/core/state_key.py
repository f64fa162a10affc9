"""Parses a key as users type it: the value of the only key column, or a JSON object."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from taskrunner.core.state_view import Column, StateView

Key = Mapping[str, str | None]
"""Column to its value as text, which Spark casts to the column's type; None: null."""


class InvalidKey(ValueError):
    """The text is not a key of this state; the message says how to write one."""


def parse(text: str, view: StateView) -> Key:
    """The columns, at least one, that `text` gives a value for. Raises `InvalidKey`."""
    if not view.key:
        raise InvalidKey("this state has no key: read all of it, it is one row")
    document = _object(text)
    if document is not None:
        return _columns(document, view)
    if len(view.plain_key) == 1:
        return {view.plain_key[0].name: text}
    raise InvalidKey(f"{text!r} is not a JSON object: {what_a_key_is(view)}")


def what_a_key_is(view: StateView) -> str:
    """One line that names the key columns and says how to write them."""
    columns = ", ".join(f"{one.name} {one.type}" for one in view.key)
    example = json.dumps({one.name: "…" for one in view.plain_key or view.key}, ensure_ascii=False)
    only = f"the value of {view.plain_key[0].name}, or " if len(view.plain_key) == 1 else ""
    return f"the key columns are {columns}; give {only}a JSON object such as {example}"


def with_window_end(key: Key, window_ms: int | None) -> Key:
    """The key with the end of its window, if the start determines the end."""
    start = key.get("window_start")
    if window_ms is None or start is None or "window_end" in key:
        return key
    try:
        moment = datetime.fromisoformat(start)
    except ValueError:
        return key
    return {**key, "window_end": (moment + timedelta(milliseconds=window_ms)).isoformat()}


def _object(text: str) -> dict[str, Any] | None:
    """Parses the text as a JSON object; a text that only looks like one is a plain value."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        document = json.loads(text, parse_int=str, parse_float=str)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _columns(document: dict[str, Any], view: StateView) -> Key:
    known = {one.name: one for one in view.key}
    for name in document:
        if name not in known:
            raise InvalidKey(f"there is no key column {name!r}: {what_a_key_is(view)}")
    if not document:
        raise InvalidKey(f"the key names no column: {what_a_key_is(view)}")
    return {name: _text(known[name], value) for name, value in document.items()}


def _text(column: Column, value: Any) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case str():
            return value
        case _:
            shown = json.dumps(value)
            raise InvalidKey(
                f"{shown} is no value of key column {column.name}, which is {column.type}"
            )
