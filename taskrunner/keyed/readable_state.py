"""Shows the stored value of a key group in readable form: each key with its state.

No user code is needed, because state is plain data. Windows are shown in the same way: their value
has the same shape, a version and the contents by key.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from taskrunner.api.state import TTL_MARK
from taskrunner.keyed import plain_pickle
from taskrunner.keyed.group_state import UnknownStateFormat, unpack_key
from taskrunner.keyed.plain_pickle import CodeInState


@dataclass(frozen=True, slots=True)
class KeyContents:
    key: tuple[Any, ...]
    values: dict[str, Any]
    """The state values, as JSON."""


def contents_of(value: bytes) -> list[KeyContents]:
    """The keys of a group in the order in which they are stored. Raises `UnknownStateFormat`,
    `CodeInState`.
    """
    try:
        _, keys, *rest = plain_pickle.loads(value)
        items = list(keys.items())
    except CodeInState:
        raise
    except Exception as error:
        raise UnknownStateFormat(f"not the state of a key group: {error}") from error
    timers = rest[0] if rest and isinstance(rest[0], dict) else {}
    found = {_tuple(key): _shown(held) for key, held in items}
    for key, mine in timers.items():
        found.setdefault(_tuple(key), {})["timers"] = [_instant(one) for one in mine]
    return [KeyContents(key, values) for key, values in found.items()]


def states_of(cells: Mapping[str, Any]) -> dict[str, Any]:
    """The values by state name, without their expiries."""
    return {
        name.removesuffix(TTL_MARK): _unmarked(held) if name.endswith(TTL_MARK) else held
        for name, held in cells.items()
    }


def as_json(value: Any) -> Any:
    """Converts plain data to JSON."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes() | bytearray():
            return base64.b64encode(value).decode()
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case Mapping():
            return {_name(key): as_json(one) for key, one in value.items()}
        case list() | tuple() | set() | frozenset():
            return [as_json(one) for one in value]
        case _ if is_dataclass(value) and not isinstance(value, type):
            return {one.name: as_json(getattr(value, one.name)) for one in fields(value)}
        case _:
            return str(value)


def as_text(value: Any) -> str | None:
    """A part of a key as a user would type it; None: null."""
    if value is None:
        return None
    found = as_json(value)
    return str(found).lower() if isinstance(found, bool) else str(found)


def _shown(held: Any) -> dict[str, Any]:
    if isinstance(held, bytes):
        return {name: as_json(one) for name, one in states_of(unpack_key(held)).items()}
    found = as_json(held)
    return found if isinstance(found, dict) else {"contents": found}


def _unmarked(held: Any) -> Any:
    match held:
        case tuple():
            return held[0]
        case list():
            return [one for one, _ in held]
        case _:
            return {key: one for key, (one, _) in held.items()}


def _tuple(key: Any) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)


def _name(key: Any) -> str:
    return as_text(key) or "null"


def _instant(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()
