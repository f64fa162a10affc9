"""`pool.lock`, which a runner holds while it takes a checkpoint."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path

from jobmanager.core.errors import StorageUnavailable
from jobmanager.files import locks

_WAIT = timedelta(minutes=2)


@contextmanager
def pool_locked(job: Path) -> Iterator[None]:
    """Holds the lock of the job in this directory. Blocks: not for the event loop.

    Raises `StorageUnavailable` if a checkpoint is under way for too long, as it may be where
    it has to be uploaded.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(locks.held(job / "pool.lock", _WAIT))
        except locks.LockUnavailable:
            raise StorageUnavailable(
                f"job {job.name} has had a checkpoint under way for {_WAIT.total_seconds():g} s"
            ) from None
        yield
