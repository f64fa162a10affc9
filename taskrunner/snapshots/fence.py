"""The fence: only the attempt whose number is in the job's `epoch` file may write.

The epoch is raised before an attempt reads anything, and is never lowered. All publications
happen inside `holding`: check and publication are one step for a newer attempt, which needs
the same lock to raise the epoch.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from jobmanager.core.ids import AttemptNumber
from jobmanager.core.snapshots.layout import EPOCH, EPOCH_LOCK, POOL_LOCK
from jobmanager.files.storage_port import Storage
from taskrunner.snapshots.layout import JobLayout


class Superseded(Exception):
    """A newer attempt of this job has taken over."""


class Fence:
    """The fence as one attempt sees it."""

    def __init__(self, layout: JobLayout, attempt: AttemptNumber) -> None:
        self._work = layout.work
        self._attempt = attempt

    def raise_epoch(self) -> None:
        """Takes over from every older attempt. Raises `Superseded` if a newer attempt has."""
        with self._work.lock(EPOCH_LOCK):
            self.check()
            self._work.write(EPOCH, f"{self._attempt}\n")
        # An older one may be frozen in the middle of a checkpoint. When it wakes up it finds that
        # it was superseded before it writes a manifest, and what it put into the pool is swept.
        self._work.break_lock(POOL_LOCK)

    def check(self) -> None:
        """Raises `Superseded` if a newer attempt has taken over."""
        epoch = _epoch_in(self._work)
        if epoch > self._attempt:
            raise Superseded(f"attempt {self._attempt} was superseded by attempt {epoch}")

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Keeps newer attempts from taking over in the block. Raises `Superseded` if one has."""
        with self._work.lock(EPOCH_LOCK):
            self.check()
            yield


def read_epoch(layout: JobLayout) -> int:
    """The attempt that may write; 0: none has started yet."""
    return _epoch_in(layout.work)


def _epoch_in(work: Storage) -> int:
    try:
        return int(work.read(EPOCH))
    except FileNotFoundError:
        return 0
