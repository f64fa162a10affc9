"""The state of a window operator for a key group, and when the operator has to be called again."""

from dataclasses import dataclass, field
from typing import Any

from taskrunner.core.end_of_time import END_OF_TIME_MS
from taskrunner.keyed import plain_pickle

_VERSION = 1


class UnreadableWindowState(Exception):
    """The state was written by another version of Headgate."""


@dataclass(frozen=True, slots=True)
class Now:
    """The time of a call: event time in microseconds, processing time in milliseconds."""

    watermark_us: int
    processing_ms: int

    @property
    def is_end(self) -> bool:
        """Whether no more rows will arrive."""
        return self.watermark_us >= END_OF_TIME_MS * 1000


@dataclass(slots=True)
class WindowState:
    """The windows of all keys of a group."""

    keys: dict[Any, Any] = field(default_factory=dict)
    due_us: int | None = None
    """The earliest event time at which a window is due, or a time before it."""
    tick_ms: int | None = None
    """The same in processing time."""

    def expect(self, due_us: int) -> None:
        if self.due_us is None or due_us < self.due_us:
            self.due_us = due_us

    def expect_tick(self, tick_ms: int) -> None:
        if self.tick_ms is None or tick_ms < self.tick_ms:
            self.tick_ms = tick_ms


def read(state: bytes | None) -> WindowState:
    """Raises `UnreadableWindowState`, `CodeInState`."""
    if state is None:
        return WindowState()
    version, keys, due_us, tick_ms = plain_pickle.loads(state)
    if version != _VERSION:
        raise UnreadableWindowState(
            f"windows were written in version {version}, and this Headgate reads {_VERSION}"
        )
    return WindowState(keys, due_us, tick_ms)


def write(book: WindowState) -> bytes | None:
    if not book.keys:
        return None
    return plain_pickle.dumps((_VERSION, book.keys, book.due_us, book.tick_ms))
