"""What the code of a keyed Python vertex is given, and what it answers.

Spark calls it once for a key group and batch, not once for a key: a call costs about a
millisecond, whatever it does. All that the vertex keeps for the keys of a group is one
value of bytes, which nobody but the operator understands.

    rows of the group, its state, the moment ──▶ take ──▶ rows, new state, next timer

Who calls it (`taskrunner.spark.compile.keyed_python`, and the test harness) promises:

* The rows of a group come in order: by event time where the vertex has one (rows without
  one last), and rows of one time as they arrived. Rows that are late come too.
* A TIMESTAMP is `datetime64[us]` (not ns) in UTC without a zone. It may go out in any way that
  `taskrunner.keyed.times.to_micros` reads.
* A batch with rows gives one call with them. Otherwise there is one call without rows when
  the watermark, or the processing time, is at the timer or past it.
* A batch job gives one call with all rows, and then one without at the end of time.
"""

from dataclasses import dataclass
from typing import Protocol

import pandas as pd

NO_WATERMARK_MS = -(2**62)
"""The watermark while there is none: before every event."""


@dataclass(frozen=True, slots=True)
class Moment:
    """When a batch is. A batch that is run again has the same moment."""

    watermark_ms: int
    """Event time reached: no row before it is expected any more."""
    processing_ms: int


@dataclass(frozen=True, slots=True)
class Outcome:
    rows: pd.DataFrame
    """In the columns of the operator's output."""
    state: bytes | None
    """None: nothing is kept for this group, and its timer is forgotten."""
    timer_ms: int | None
    """When to be called without rows; None: not. What is not after the moment comes at once."""


class GroupOperator(Protocol):
    """The code of one keyed vertex."""

    def take(self, state: bytes | None, rows: pd.DataFrame | None, moment: Moment) -> Outcome: ...
