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
    descriptor = os.open(job / "pool.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _lock(descriptor, job)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, job: Path) -> None:
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise StorageUnavailable(
                    f"job {job.name} has had a checkpoint under way for {_WAIT_SECONDS:g} s"
                ) from None
            time.sleep(_RETRY_SECONDS)
