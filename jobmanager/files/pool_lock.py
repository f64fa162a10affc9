"""The lock of a job's pool: for short. Whoever writes a manifest holds it, and whoever deletes."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta

from jobmanager.core.errors import StorageBusy
from jobmanager.core.snapshots.layout import POOL_LOCK
from jobmanager.files.storage_port import LockUnavailable, Storage

AT_ONCE = timedelta()
FOR_A_WHILE = timedelta(seconds=15)


@contextmanager
def pool_locked(work: Storage, wait: timedelta) -> Iterator[None]:
    """Hold the pool lock of the job with this working directory. Blocks: not for the event loop.

    Raises `StorageBusy` if the lock is not free within `wait`.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(work.lock(POOL_LOCK, wait))
        except LockUnavailable:
            raise StorageBusy(
                f"the files of the job in {work.uri} are used by another process: try again later"
            ) from None
        yield
