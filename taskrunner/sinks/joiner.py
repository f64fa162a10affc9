"""How small files become one: the port of a format, and how a join is broken off."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import PurePath
from threading import Lock
from typing import Protocol

from taskrunner.core.file_joins import Bin, JoinedFile
from taskrunner.core.sink_records import OutputFile


class JoinRefused(Exception):
    """These files cannot be joined, or the joined file does not hold what they hold."""


class JoinBrokenOff(Exception):
    """The attempt ends, and no join is wanted any more."""


class BreakOff:
    """Ends joins early. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._is_asked = False
        self._actions: list[Callable[[], None]] = []

    def ask(self) -> None:
        """From now on nothing is joined, and what is under way is ended."""
        with self._lock:
            self._is_asked = True
            actions = [*self._actions]
        for action in actions:
            action()

    def check(self) -> None:
        """Raises `JoinBrokenOff` if nothing is to be joined any more."""
        if self._is_asked:
            raise JoinBrokenOff("the attempt is ending")

    @contextmanager
    def ending(self, action: Callable[[], None]) -> Iterator[None]:
        """Has `action` called if the block is to end early."""
        with self._lock:
            self.check()
            self._actions.append(action)
        try:
            yield
        finally:
            with self._lock, suppress(ValueError):
                self._actions.remove(action)


class FileJoiner(Protocol):
    """Joins files of one format."""

    def can_join(self, file: OutputFile) -> bool:
        """Whether a file can be part of a join, by its name."""
        ...

    def join(
        self, bins: Sequence[Bin], private: PurePath, staged: PurePath, break_off: BreakOff
    ) -> list[JoinedFile]:
        """Writes the files of each bin, which are named inside `private`, into a new file below
        `staged`, or into several. Compares the rows. Raises `JoinRefused`, `JoinBrokenOff`,
        `OSError` or an error of Spark; then something may be left in `staged`.
        """
        ...
