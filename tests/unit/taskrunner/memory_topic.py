"""A topic with transactions and fencing by the last writer that took over, in memory."""

from collections.abc import Callable, Sequence
from pathlib import Path


class Fenced(Exception):
    """A newer writer has taken over."""


class MemoryTopic:
    """What readers of committed rows see, and the marker."""

    def __init__(self) -> None:
        self.rows: list[str] = []
        self.marker: int | None = None
        self.writer = 0

    def open(self, after_step: Callable[[str], None] = lambda step: None) -> "MemoryWriter":
        return MemoryWriter(self, after_step)


class MemoryWriter:
    """One process's connection. A crash may come before or after a transaction commits."""

    def __init__(self, topic: MemoryTopic, after_step: Callable[[str], None]) -> None:
        self._topic = topic
        self._after_step = after_step
        self._number: int | None = None

    def take_over(self) -> int | None:
        self._topic.writer += 1
        self._number = self._topic.writer
        return self._topic.marker

    def publish(self, files: Sequence[Path], marker: int) -> None:
        rows = [line for file in files for line in file.read_text().splitlines()]
        self._after_step("sent")
        if self._number != self._topic.writer:
            raise Fenced
        self._topic.rows += rows
        self._topic.marker = marker
        self._after_step("committed")

    def close(self) -> None:
        self._number = None
