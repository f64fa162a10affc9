"""When the runner of an attempt that has ended may be replaced by the runner of the next attempt.

Sinks that Headgate writes itself are fenced by the epoch in storage: the next attempt may start at
any moment. A `python` sink or a script writes where nobody can hold it back, so there two runners
must never be at work at the same time. Its runner stops by itself when no JobManager has answered
for its fence time, and kills itself if it cannot (`taskrunner/core/fence_time.py`):

    last heartbeat answered     fence time over         killed        replaced
    ────────┬──────────────────────────┬───────────────────┬─────────────┬────▶
            └────── fence_after ───────┴─── STOP_WITHIN ───┴── MARGIN ───┘

The next attempt waits for the end of that line, unless the old runner is known to be at rest: its
process was seen to end, or it has reported the end of its attempt, or it never registered.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

STOP_WITHIN = timedelta(seconds=5)
"""How long a runner may take to stop its queries when its fence time is over."""
MARGIN = timedelta(seconds=10)
"""For heartbeats that were answered and not written down, and for clocks that are stepped."""


@dataclass(frozen=True, slots=True)
class EarlierRunner:
    """What is known of the runner of an earlier attempt."""

    heard_at: datetime | None
    """Its last heartbeat; None: it has never registered, and so was never told to run."""
    fence_after: timedelta | None
    """What it was told; None: it does not stop by itself, being of an older version."""
    is_gone: bool
    """Its process was seen to end, or it is long past its fence time."""
    has_reported_end: bool
    """It has said that nothing of its attempt runs any more."""


def at_rest_at(runner: EarlierRunner) -> datetime | None:
    """From when on the runner surely writes nothing any more; None: now already."""
    if runner.is_gone or runner.has_reported_end:
        return None
    if runner.heard_at is None or runner.fence_after is None:
        return None
    return runner.heard_at + runner.fence_after + STOP_WITHIN + MARGIN
