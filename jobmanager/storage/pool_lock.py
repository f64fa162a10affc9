"""`pool.lock`, which a runner holds while it takes a checkpoint."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jobmanager.core.errors import StorageUnavailable

_WAIT_SECONDS = 120.0
_RETRY_SECONDS = 0.02


@contextmanager
def pool_locked(job: Path) -> Iterator[None]:
    """Holds the lock of the job in this directory. Blocks: not for the event loop.

    Raises `StorageUnavailable` if a checkpoint is under way for too long, as it may be where
    it has to be uploaded.
    """
    job.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + _WAIT_SECONDS
    while (descriptor := _locked(job / "pool.lock")) is None:
        if time.monotonic() >= deadline:
            raise StorageUnavailable(
                f"job {job.name} has had a checkpoint under way for {_WAIT_SECONDS:g} s"
            )
        time.sleep(_RETRY_SECONDS)
    try:
        yield
    finally:
        os.close(descriptor)


def _locked(path: Path) -> int | None:
    """A descriptor that has the lock; None: another has it. A runner that takes over from one
    that is frozen puts another file in its place: the one that is there now counts.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None
