"""The interface of a keyed Python vertex: what an operator gets, and what it returns.

Spark calls the operator once for each key group and batch, not once for each key, because a call
costs about a millisecond. The state of all keys of a group is one binary value, which only the
operator understands.

    rows of the group, its state, the moment ──▶ take ──▶ rows, new state, next timer

The caller (`taskrunner.spark.compile.keyed_python`, and the test harness) guarantees:

* The rows of a group are in order: by event time if the vertex has one (rows without a time
  last), and rows with equal times in order of arrival. Late rows are passed too.
* A TIMESTAMP is `datetime64[us]` (not ns) in UTC without a zone. The operator may return times in
  any form that `taskrunner.keyed.times.to_micros` reads.
* A batch with rows of the group makes one call with them. Otherwise there is one call without rows
  when the watermark, or the processing time, has reached the timer.
* A batch job makes one call with all rows, and then one without rows at the end of time.
"""

from dataclasses import dataclass
from typing import Protocol

import pandas as pd

NO_WATERMARK_MS = -(2**62)
"""The watermark while there is none: before every event."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The times of a batch. A batch that is run again has the same times."""

    watermark_ms: int
    """The watermark: no row before it is expected any more."""
    processing_ms: int


@dataclass(frozen=True, slots=True)
class Outcome:
    rows: pd.DataFrame
    """In the columns of the operator's output."""
    state: bytes | None
    """None: the group's state and its timer are deleted."""
    timer_ms: int | None
    """When to call the operator without rows; None: never. A time that has passed means at once."""


class GroupOperator(Protocol):
    """The code of one keyed vertex."""

    def take(self, state: bytes | None, rows: pd.DataFrame | None, moment: Moment) -> Outcome: ...
