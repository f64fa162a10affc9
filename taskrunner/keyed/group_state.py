"""The stored value of a key group: its keys, each with its state.

    (version, {key: blob}, {key: timers}, {key: expiry})      pickled
    blob = {state name: plain data}                           pickled

A key is the tuple of its columns. The state of a key is a blob, so that keys which a batch does
not touch are never decoded. Timers and expiries are outside the blobs, so that finding due timers
decodes no blob.

All of it is plain data (`PLAIN`). An object of a user's class would be kept under the name of
its class, be lost with the next version of the code, and run code of whoever wrote the state: it
is refused when state is written, and again when state is read (`plain_pickle`).
"""

import pickle
import pickletools
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from taskrunner.keyed import plain_pickle
from taskrunner.keyed.plain_pickle import CodeInState, NotPlainData

VERSION = 1
PLAIN = (
    "None, bool, int, float, str, bytes, datetime, date, time, timedelta, Decimal, UUID, and "
    "tuples, lists, sets and dicts of these"
)
_GLOBALS = frozenset(
    [
        "datetime datetime",
        "datetime date",
        "datetime time",
        "datetime timedelta",
        "datetime timezone",
        "decimal Decimal",
        "uuid UUID",
        "builtins bytearray",
        "builtins complex",
    ]
)
_NAMES_A_CLASS = b"\x93"
"""The pickle opcode STACK_GLOBAL; it may also be a byte of some text or number."""
_TIMES = re.compile(
    rb"(?:\x8c\x08datetime\x94|h.)\x8c.(?:datetime|date|time|timedelta|timezone)\x94\x93", re.DOTALL
)
"""How pickle names the classes of `datetime`, so that the most frequent values pass quickly."""
Key = tuple[Hashable, ...]


class UnknownStateFormat(Exception):
    """The bytes are not the state of a key group of this or an earlier version."""


@dataclass(slots=True)
class GroupState:
    """The state of all keys of one group."""

    blobs: dict[Key, bytes] = field(default_factory=dict)
    timers: dict[Key, list[int]] = field(default_factory=dict)
    """The timers of each key, ascending, in milliseconds."""
    expiries: dict[Key, int] = field(default_factory=dict)
    """When the last state of a key expires, in milliseconds; a key that is not here never does."""

    @property
    def is_empty(self) -> bool:
        return not (self.blobs or self.timers)


def pack(state: GroupState) -> bytes | None:
    """Serialises the group; None: there is nothing to store."""
    if state.is_empty:
        return None
    return plain_pickle.dumps((VERSION, state.blobs, state.timers, state.expiries))


def unpack(value: bytes | None) -> GroupState:
    """Raises `UnknownStateFormat`, `CodeInState`."""
    if value is None:
        return GroupState()
    try:
        version, *parts = plain_pickle.loads(value)
    except CodeInState:
        raise  # under its own name: nothing else of it comes back from a Python worker
    except Exception as error:
        raise UnknownStateFormat(f"not the state of a key group: {error}") from error
    if version != VERSION:
        raise UnknownStateFormat(
            f"the state of the key group has version {version}, this Headgate reads {VERSION}"
        )
    return GroupState(*parts)


def pack_key(values: Mapping[str, Any]) -> bytes:
    """The blob of one key. Raises `NotPlainData`."""
    blob = pickle.dumps(values, protocol=5)
    if _NAMES_A_CLASS in blob and _NAMES_A_CLASS in _TIMES.sub(b"", blob):
        _check(blob, values)
    return blob


def unpack_key(blob: bytes) -> dict[str, Any]:
    """Raises `CodeInState`."""
    values: dict[str, Any] = plain_pickle.loads(blob)
    return values


def _check(blob: bytes, values: Mapping[str, Any]) -> None:
    foreign = _foreign(blob)
    if foreign:
        raise NotPlainData(
            f"state {_holder(values)!r} holds a {foreign.replace(' ', '.')}: keep plain data "
            f"({PLAIN}), such as a dict of its fields"
        )


def _foreign(blob: bytes) -> str | None:
    """The first class in the blob that is not plain data."""
    texts: list[str] = []
    memo: dict[int, str] = {}
    for opcode, argument, _ in pickletools.genops(blob):
        if isinstance(argument, str):
            texts.append(argument)
        if opcode.name == "MEMOIZE":
            memo[len(memo)] = texts[-1] if texts else ""
        elif opcode.name in ("BINGET", "LONG_BINGET"):
            texts.append(memo.get(int(str(argument)), ""))
        elif opcode.name == "STACK_GLOBAL" and " ".join(texts[-2:]) not in _GLOBALS:
            return " ".join(texts[-2:])
    return None


def _holder(values: Mapping[str, Any]) -> str:
    """The name of the state that holds the value."""
    for name, value in values.items():
        if _foreign(pickle.dumps(value, protocol=5)):
            return name
    return next(iter(values), "")
