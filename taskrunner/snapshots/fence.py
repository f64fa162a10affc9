"""The fence: only the attempt whose number is in the job's `epoch` file may write.

The marker is raised before an attempt reads anything, and is never lowered. Whoever
publishes does so inside `holding`: the check and the publication are one step for a
newer attempt, which must wait for the lock to raise the marker.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from jobmanager.core.ids import AttemptNumber
from jobmanager.files import locks
from taskrunner.snapshots import durable
from taskrunner.snapshots.layout import JobLayout


class Superseded(Exception):
    """A newer attempt of this job has taken over."""


class Fence:
    """The fence as one attempt sees it."""

    def __init__(self, layout: JobLayout, attempt: AttemptNumber) -> None:
        self._layout = layout
        self._attempt = attempt

    def raise_epoch(self) -> None:
        """Takes over from every older attempt. Raises `Superseded` if a newer one has."""
        with locks.held(self._layout.epoch_lock):
            self.check()
            durable.write(self._layout.epoch, f"{self._attempt}\n")
        # An older one may be frozen in the middle of a checkpoint. When it wakes up it finds that
        # it was superseded before it writes a manifest, and what it put into the pool is swept.
        locks.wrest(self._layout.pool_lock)

    def check(self) -> None:
        """Raises `Superseded` if a newer attempt has taken over."""
        epoch = read_epoch(self._layout)
        if epoch > self._attempt:
            raise Superseded(f"attempt {self._attempt} was superseded by attempt {epoch}")

    @contextmanager
    def holding(self) -> Iterator[None]:
        """No newer attempt takes over within the block. Raises `Superseded` if one has."""
        with locks.held(self._layout.epoch_lock):
            self.check()
            yield


def read_epoch(layout: JobLayout) -> int:
    """The attempt that may write; 0: none has started yet."""
    try:
        return int(layout.epoch.read_text())
    except FileNotFoundError:
        return 0
