"""Locks between processes, on files. A process that has died holds no lock."""

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
    """Hold the lock on `path` exclusively inside the block."""
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
    """Make the lock on `path` available although its holder does not release it: the holder may be
    frozen on a machine out of reach. The caller must have made sure that the holder can do no harm,
    since it still believes that it has the lock.
    """
    try:
        with held(path, wait):
            return
    except LockUnavailable:
        fresh = path.with_name(temporary_name(path.name, uuid4().hex))
        fresh.touch()
        fresh.rename(path)


def _locked(path: Path) -> int | None:
    """Return a descriptor with the lock of the present file; None: another process has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None
