"""How long an attempt may write while no JobManager answers.

Whoever cannot reach a JobManager may have been replaced long ago, and does not know. Sinks that
Headgate writes itself are fenced by the epoch in storage, so an attempt that has no other sinks
works through any outage. A `python` sink or a script writes where nobody can hold it back: there
the attempt stops when no heartbeat has been answered for the fence time, and its process ends by
force when the queries have not stopped shortly after. The JobManager waits for that before it
starts the next attempt (`jobmanager/core/life/replacement.py`).

Times are seconds of a clock that never goes back.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from jobmanager.core.ids import VertexId
from jobmanager.core.life.replacement import STOP_WITHIN


class JobManagerLost(Exception):
    """No JobManager has answered for longer than the attempt may write without one."""


@dataclass(frozen=True, slots=True)
class FenceTime:
    heard_at: float
    """When the newest heartbeat was sent that has been answered: the JobManager has written
    down a later time, never an earlier one."""
    after: float | None = None
    """Seconds; None: the attempt never stops by itself."""

    def heard(self, sent_at: float) -> "FenceTime":
        return FenceTime(max(self.heard_at, sent_at), self.after)

    @property
    def stop_at(self) -> float | None:
        """From then on nothing may be begun, and what is under way is stopped."""
        return None if self.after is None else self.heard_at + self.after

    @property
    def kill_at(self) -> float | None:
        """By then everything has stopped, or the process ends by force."""
        return None if self.after is None else self.heard_at + self.after + _STOP_SECONDS

    def is_over(self, now: float) -> bool:
        return self.stop_at is not None and now >= self.stop_at

    def check(self, now: float) -> None:
        """Raises `JobManagerLost` when the time is over."""
        if self.is_over(now):
            raise JobManagerLost(lost_message(self))


def lost_message(fence: FenceTime, sinks: Sequence[VertexId] = ()) -> str:
    named = ", ".join(repr(str(one)) for one in sinks) or "a sink"
    return (
        f"no JobManager has answered for {fence.after:g} s (fence_after), and {named} cannot be "
        "fenced: the attempt has stopped, because another may have taken its place"
    )


_STOP_SECONDS = STOP_WITHIN.total_seconds()
