"""Locks between processes, on files. A dead process holds none."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

from jobmanager.core.snapshots.layout import temporary_name

_RETRY_SECONDS = 0.02


class LockUnavailable(Exception):
    """Another process held the lock for too long."""


@contextmanager
def held(path: Path, wait: timedelta = timedelta(minutes=2)) -> Iterator[None]:
    """Holds the lock on `path`, exclusively, for the length of the block."""
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + wait.total_seconds()
    while (descriptor := _locked(path)) is None:
        if time.monotonic() >= deadline:
            raise LockUnavailable(
                f"{path} has been locked by another process for {wait.total_seconds():g} s"
            )
        time.sleep(_RETRY_SECONDS)
    try:
        yield
    finally:
        os.close(descriptor)  # which unlocks


def break_lock(path: Path, wait: timedelta = timedelta(seconds=10)) -> None:
    """Sees to it that the lock on `path` can be had, although its holder does not let go: it may
    be frozen on a machine out of reach. Only for who has made sure that the holder can do no
    harm: it goes on believing that it has the lock.
    """
    try:
        with held(path, wait):
            return
    except LockUnavailable:
        fresh = path.with_name(temporary_name(path.name, uuid4().hex))
        fresh.touch()
        fresh.rename(path)


def _locked(path: Path) -> int | None:
    """A descriptor that has the lock of the file that is there now; None: another has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None
