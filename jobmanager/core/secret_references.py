"""References to secrets in a job graph: `${secret:name}`.

A graph that is stored, shown or logged has the reference. Only the runner of a job looks the secret
up, for the vertex that uses it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

_REFERENCE = re.compile(r"\$\{secret:([^}]*)\}")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,62}")
_BEGINNING = "${secret:"
VARIABLE = "HEADGATE_SECRET_"
"""What the environment variables of secrets begin with."""
T = TypeVar("T")


def names_in(text: str) -> list[str]:
    """The secrets that a text names."""
    return [name for name in _REFERENCE.findall(text) if _NAME.fullmatch(name)]


def has_reference(text: str) -> bool:
    """Whether a text has a reference, or what was meant to be one."""
    return _BEGINNING in text


def fault(text: str) -> str | None:
    """What is wrong with the references in a text; None: nothing."""
    wrong = [name for name in _REFERENCE.findall(text) if not _NAME.fullmatch(name)]
    if wrong or text.count(_BEGINNING) != len(_REFERENCE.findall(text)):
        return (
            f"{text!r} has a reference to a secret that is not of the form ${{secret:name}}, with "
            "a name of letters, digits, '_', '-' and '.' that begins with a letter"
        )
    return None


def variable_of(name: str) -> str:
    """The environment variable of a secret: HEADGATE_SECRET_DB_PASSWORD of db.password."""
    return VARIABLE + re.sub(r"[^A-Za-z0-9]", "_", name).upper()


def filled(value: T, secret: Callable[[str], str]) -> T:
    """The same value with secrets in the place of references: in a text, a list, a mapping or the
    fields of a dataclass, however deep.
    """
    return _filled(value, secret)  # type: ignore[no-any-return]


def texts_in(value: Any, where: str = "") -> Iterator[tuple[str, str]]:
    """Every text in a value, with the place it is at: `options.password`."""
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, Mapping):
        for key, held in value.items():
            yield from texts_in(held, f"{where}.{key}" if where else str(key))
    elif isinstance(value, list | tuple):
        for position, held in enumerate(value):
            yield from texts_in(held, f"{where}[{position}]")


def _filled(value: Any, secret: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        # a class of its own, such as an enumeration, has no references
        if type(value) is not str or not has_reference(value):
            return value
        return _REFERENCE.sub(lambda found: secret(found[1]), value)
    if isinstance(value, Mapping):
        return {key: _filled(held, secret) for key, held in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(_filled(held, secret) for held in value)
    if is_dataclass(value) and not isinstance(value, type):
        changed = {
            one.name: new
            for one in fields(value)
            if (new := _filled(held := getattr(value, one.name), secret)) != held
        }
        return replace(value, **changed) if changed else value
    return value
