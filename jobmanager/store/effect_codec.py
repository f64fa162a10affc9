"""Effects as outbox rows and back."""

import dataclasses
from datetime import datetime, timedelta
from typing import Any, get_args

from jobmanager.core.life.effects import Effect, ForJobManager, ForRunner

_KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in get_args(Effect)}
_FOR_RUNNER = get_args(ForRunner)
assert set(_KINDS.values()) == {*_FOR_RUNNER, *get_args(ForJobManager)}
KNOWN = tuple(_KINDS)
"""The kinds of effects that this program knows. A newer program may have written others: they stay
in the outbox for a leader that knows them.
"""


def target_of(effect: Effect) -> str:
    return "runner" if isinstance(effect, _FOR_RUNNER) else "jobmanager"


def attempt_of(effect: Effect) -> int | None:
    return getattr(effect, "attempt", None)


def encode(effect: Effect) -> tuple[str, dict[str, Any]]:
    values = {f.name: _encode(getattr(effect, f.name)) for f in dataclasses.fields(effect)}
    return type(effect).__name__, values


def decode(kind: str, payload: dict[str, Any]) -> Effect:
    """Return an effect of a known kind. Fields that a newer program has added are ignored."""
    cls = _KINDS[kind]
    types = {f.name: f.type for f in dataclasses.fields(cls)}
    known = {name: value for name, value in payload.items() if name in types}
    effect: Effect = cls(**{name: _decode(types[name], value) for name, value in known.items()})
    return effect


def _encode(value: Any) -> Any:
    match value:
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case _:
            return value


def _decode(wanted: Any, value: Any) -> Any:
    if wanted is datetime:
        return datetime.fromisoformat(value)
    if wanted is timedelta:
        return timedelta(seconds=value)
    return value
