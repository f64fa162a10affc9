"""State of a process function: declared in the class, kept separately for every key.

    class Orders(ProcessFunction):
        total = ValueState(default=0)
        items = ListState(ttl="1h")
        seen = MapState()

The method names are Flink's. Values must be plain data (`taskrunner.keyed.group_state`).

With a `ttl` a value expires that long after it was last written; each element of a list and each
entry of a map expires on its own. The time is the vertex's clock: with `time: event` the time of
the current row or timer (or the watermark, if that is later), else the time of the batch.
"""

import copy
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any, Generic, TypeVar

from jobmanager.core import durations

TTL_MARK = "~ttl"
"""Suffix of the name of a state with a time to live, in which each value is a pair of the value
and its expiry.
"""
K = TypeVar("K")
T = TypeVar("T")
Own = TypeVar("Own", bound="State")


class Cells:
    """The stored values of the current key, by state name, and the current time."""

    __slots__ = ("now_ms", "values")

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.now_ms = 0


class State:
    """The common part of the three kinds of state."""

    __slots__ = ("_cells", "cell", "name", "ttl_ms")

    def __init__(self, *, ttl: str | timedelta | None = None) -> None:
        self.name = ""
        self.cell = ""
        """The name under which the value is stored; a time to live changes format and name."""
        self.ttl_ms = _milliseconds(ttl)
        self._cells = Cells()

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        self.cell = name if self.ttl_ms is None else name + TTL_MARK

    def bound(self: Own, cells: Cells) -> Own:
        """The same state, for one function object."""
        mine = copy.copy(self)
        mine._cells = cells
        return mine

    def clear(self) -> None:
        """Deletes the value of this key."""
        self._cells.values.pop(self.cell, None)

    def expiry_of(self, held: Any) -> int | None:
        """When the last part of `held` expires; None: never."""
        raise NotImplementedError

    def swept(self, held: Any, now_ms: int) -> Any:
        """The part of `held` that has not expired; None: all of it has."""
        raise NotImplementedError

    def _expiry(self) -> int:
        assert self.ttl_ms is not None
        return self._cells.now_ms + self.ttl_ms


class ValueState(State, Generic[T]):
    """One value for each key."""

    __slots__ = ("default",)

    def __init__(self, default: Any = None, *, ttl: str | timedelta | None = None) -> None:
        super().__init__(ttl=ttl)
        if isinstance(default, list | dict | set | bytearray):
            raise TypeError(
                f"the default {default!r} would be shared by all keys: take a ListState or a "
                "MapState, or None and make one in process()"
            )
        self.default = default

    def value(self) -> Any:
        """The current value; the default if there is none."""
        held = self._cells.values.get(self.cell)
        if held is None:
            return self.default
        if self.ttl_ms is None:
            return held
        value, expiry = held
        return value if expiry > self._cells.now_ms else self.default

    def update(self, value: T | None) -> None:
        """Stores `value`; None is the same as `clear()`."""
        if value is None:
            self.clear()
        elif self.ttl_ms is None:
            self._cells.values[self.cell] = value
        else:
            self._cells.values[self.cell] = (value, self._expiry())

    def expiry_of(self, held: Any) -> int | None:
        return None if self.ttl_ms is None else int(held[1])

    def swept(self, held: Any, now_ms: int) -> Any:
        return held if self.ttl_ms is None or held[1] > now_ms else None


class ListState(State, Generic[T]):
    """A list for each key."""

    __slots__ = ()

    def get(self) -> list[T]:
        """A copy of the list, in the order in which elements were added."""
        held = self._cells.values.get(self.cell, ())
        if self.ttl_ms is None:
            return list(held)
        now = self._cells.now_ms
        return [value for value, expiry in held if expiry > now]

    def add(self, value: T) -> None:
        entry = value if self.ttl_ms is None else (value, self._expiry())
        self._cells.values.setdefault(self.cell, []).append(entry)

    def add_all(self, values: Iterable[T]) -> None:
        for value in values:
            self.add(value)

    def update(self, values: Iterable[T]) -> None:
        """Replaces the whole list."""
        fresh = list(values)
        self.clear()
        self.add_all(fresh)

    def expiry_of(self, held: Any) -> int | None:
        return None if self.ttl_ms is None else max(expiry for _, expiry in held)

    def swept(self, held: Any, now_ms: int) -> Any:
        if self.ttl_ms is None:
            return held or None
        return [entry for entry in held if entry[1] > now_ms] or None


class MapState(State, Generic[K, T]):
    """A mapping for each key."""

    __slots__ = ()

    def get(self, key: K, default: T | None = None) -> Any:
        held = self._held()
        if key not in held:
            return default
        if self.ttl_ms is None:
            return held[key]
        value, expiry = held[key]
        return value if expiry > self._cells.now_ms else default

    def put(self, key: K, value: T) -> None:
        entry = value if self.ttl_ms is None else (value, self._expiry())
        self._cells.values.setdefault(self.cell, {})[key] = entry

    def put_all(self, entries: dict[K, T]) -> None:
        for key, value in entries.items():
            self.put(key, value)

    def remove(self, key: K) -> None:
        """Deletes an entry. Does nothing if it does not exist."""
        self._held().pop(key, None)

    def contains(self, key: K) -> bool:
        held = self._held()
        return key in held and (self.ttl_ms is None or held[key][1] > self._cells.now_ms)

    def items(self) -> list[tuple[K, T]]:
        return list(self._live())

    def keys(self) -> list[K]:
        return [key for key, _ in self._live()]

    def values(self) -> list[T]:
        return [value for _, value in self._live()]

    def is_empty(self) -> bool:
        return next(self._live(), None) is None

    def expiry_of(self, held: Any) -> int | None:
        return None if self.ttl_ms is None else max(expiry for _, expiry in held.values())

    def swept(self, held: Any, now_ms: int) -> Any:
        if self.ttl_ms is None:
            return held or None
        return {key: entry for key, entry in held.items() if entry[1] > now_ms} or None

    def _held(self) -> dict[K, Any]:
        held: dict[K, Any] = self._cells.values.get(self.cell, {})
        return held

    def _live(self) -> Iterator[tuple[K, T]]:
        for key, entry in self._held().items():
            if self.ttl_ms is None:
                yield key, entry
            elif entry[1] > self._cells.now_ms:
                yield key, entry[0]


def _milliseconds(ttl: str | timedelta | None) -> int | None:
    if ttl is None:
        return None
    duration = durations.parse(ttl) if isinstance(ttl, str) else ttl
    if duration <= timedelta(0):
        raise ValueError(f"a ttl of {ttl!r} would keep nothing")
    return durations.milliseconds(duration)
