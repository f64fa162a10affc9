"""Locks between processes in storage that has no locks, built on conditional writes.

    <lock>.<n>             created by the n-th holder, which rewrites it as a sign of life
    <lock>.<n>.released    created by the n-th holder when it releases the lock

The lock belongs to the holder with the highest number. A process that finds the highest number
released creates the next number; of several that do so at once, one succeeds. A holder that gives
no sign of life for `DEAD_AFTER`, by the clock of the waiting process, counts as dead. As with any
lease, a holder that was only frozen may wake up and believe that it still has the lock: a process
that writes under a lock checks the job's epoch before its writes count.
"""

import threading
import time
from collections.abc import Iterable, Iterator, Set
from contextlib import contextmanager
from datetime import timedelta
from typing import Protocol
from uuid import uuid4

from jobmanager.core.snapshots import layout
from jobmanager.files.locks import LockUnavailable

DEAD_AFTER = timedelta(seconds=30)
_SIGN_OF_LIFE = timedelta(seconds=5)
_RETRY_SECONDS = 0.05


class Files(Protocol):
    """The part of `Storage` that the locks use."""

    uri: str

    def list_names(self, below: str = "") -> Set[str]: ...
    def read(self, location: str) -> bytes: ...
    def write(self, location: str, content: str | bytes) -> None: ...
    def create(self, location: str, content: str | bytes) -> bool: ...
    def delete(self, locations: Iterable[str]) -> None: ...


@contextmanager
def held(files: Files, location: str, wait: timedelta) -> Iterator[None]:
    """Hold the lock exclusively inside the block."""
    number = _acquired(files, location, wait)
    done = threading.Event()
    alive = threading.Thread(
        target=_give_signs_of_life, args=(files, location, number, done), daemon=True
    )
    alive.start()
    try:
        yield
    finally:
        done.set()
        alive.join()
        files.create(layout.lock_release(location, number), "")


def break_lock(files: Files, location: str, wait: timedelta) -> None:
    """Release the lock in the holder's place, if the holder does not within `wait`."""
    try:
        with held(files, location, wait):
            return
    except LockUnavailable:
        holder, _ = _newest(files, location)
        files.create(layout.lock_release(location, holder), "broken")


def _acquired(files: Files, location: str, wait: timedelta) -> int:
    deadline = time.monotonic() + wait.total_seconds()
    seen: tuple[int, bytes] | None = None
    seen_at = time.monotonic()
    while True:
        holder, is_free = _newest(files, location)
        if not is_free:
            sign = (holder, _sign_of(files, location, holder))
            if sign != seen:
                seen, seen_at = sign, time.monotonic()
            is_free = time.monotonic() - seen_at > DEAD_AFTER.total_seconds()
        if is_free and _is_taken(files, location, holder + 1):
            return holder + 1
        if time.monotonic() >= deadline:
            raise LockUnavailable(
                f"{files.uri}/{location} has been locked by another process for "
                f"{wait.total_seconds():g} s"
            )
        time.sleep(_RETRY_SECONDS)


def _is_taken(files: Files, location: str, number: int) -> bool:
    """Try to become the holder with this number."""
    if not files.create(layout.lock_holder(location, number), uuid4().hex):
        return False
    newest, _ = _newest(files, location)
    if newest != number:
        # The list was out of date: later holders have come and gone, and deleted the number.
        files.delete([layout.lock_holder(location, number)])
        return False
    old = [
        name
        for name in files.list_names(layout.directory_of(location))
        if (one := layout.lock_number(location, name)) is not None and one < number
    ]
    files.delete([layout.beside(location, name) for name in old])
    return True


def _newest(files: Files, location: str) -> tuple[int, bool]:
    """Return the number of the last holder (0: none), and whether it released the lock."""
    names = files.list_names(layout.directory_of(location))
    numbers = [layout.lock_number(location, name) for name in names]
    newest = max((number for number in numbers if number is not None), default=0)
    released = layout.lock_release(location, newest).rpartition("/")[2]
    return newest, newest == 0 or released in names


def _sign_of(files: Files, location: str, number: int) -> bytes:
    try:
        return files.read(layout.lock_holder(location, number))
    except FileNotFoundError:
        return b""


def _give_signs_of_life(files: Files, location: str, number: int, done: threading.Event) -> None:
    while not done.wait(_SIGN_OF_LIFE.total_seconds()):
        try:
            files.write(layout.lock_holder(location, number), uuid4().hex)
        except OSError:
            continue  # the next sign of life may succeed
