"""The lock of a job's pool, which a runner holds while it takes a checkpoint."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta

from jobmanager.core.errors import StorageUnavailable
from jobmanager.core.snapshots.layout import POOL_LOCK
from jobmanager.files.storage_port import LockUnavailable, Storage

_WAIT = timedelta(minutes=2)


@contextmanager
def pool_locked(work: Storage) -> Iterator[None]:
    """Hold the pool lock of the job with this working directory. Blocks: not for the event loop.

    Raises `StorageUnavailable` if a checkpoint is under way for too long, which may happen while it
    is uploaded.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(work.lock(POOL_LOCK, _WAIT))
        except LockUnavailable:
            raise StorageUnavailable(
                f"the job in {work.uri} has had a checkpoint under way for "
                f"{_WAIT.total_seconds():g} s"
            ) from None
        yield
