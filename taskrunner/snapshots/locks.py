"""Locks between processes, on files. A dead process holds none."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

_RETRY_SECONDS = 0.02


class LockUnavailable(Exception):
    """Another process held the lock for too long."""


@contextmanager
def held(path: Path, wait: timedelta = timedelta(minutes=2)) -> Iterator[None]:
    """Holds the lock on `path`, exclusively, for the length of the block."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _lock(descriptor, path, wait)
        yield
    finally:
        os.close(descriptor)  # which unlocks


def _lock(descriptor: int, path: Path, wait: timedelta) -> None:
    deadline = time.monotonic() + wait.total_seconds()
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise LockUnavailable(
                    f"{path} has been locked by another process for {wait.total_seconds():g} s"
                ) from None
            time.sleep(_RETRY_SECONDS)
