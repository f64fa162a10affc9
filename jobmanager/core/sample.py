"""Samples: what a region did between two readings of its progress, for charts over time.

A runner counts rows, batches and time from the start of its attempt. Two readings of the same
attempt make a sample of the time between them. Samples can be added, so older samples are summed
over longer spans, and rates stay correct.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from jobmanager.core.durations import milliseconds
from jobmanager.core.progress import RegionProgress, lag_ms

PHASES = {
    "latestOffset": "latest_offset_ms",
    "getBatch": "get_batch_ms",
    "queryPlanning": "planning_ms",
    "walCommit": "wal_commit_ms",
    "addBatch": "add_batch_ms",
    "commitOffsets": "commit_offsets_ms",
}
"""Spark's names of the phases of a batch, and ours."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a runner last reported about a region."""

    attempt: int
    at: datetime
    input_rows: int
    output_rows: int
    batches: int
    busy_ms: int
    phases_ms: Mapping[str, int] = field(default_factory=dict)
    """By our names."""
    state_rows: int = 0
    state_bytes: int = 0
    lag_ms: int | None = None
    """How far the watermark was behind the last batch."""
    backlog_rows: int | None = None
    """Rows that sources had not read; None: no source counts them."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What was counted in `span_ms` up to `at`, and the sizes at that time."""

    at: datetime
    span_ms: int
    input_rows: int
    output_rows: int
    batches: int
    busy_ms: int
    phases_ms: Mapping[str, int]
    state_rows: int
    state_bytes: int
    lag_ms: int | None
    backlog_rows: int | None = None


def reading_of(progress: RegionProgress, attempt: int, at: datetime) -> Reading:
    spent = progress.phases_ms
    return Reading(
        attempt=attempt,
        at=at,
        input_rows=progress.input_rows,
        output_rows=progress.output_rows,
        batches=progress.measured_batches,
        busy_ms=progress.busy_ms,
        phases_ms={ours: spent.get(sparks, 0) for sparks, ours in PHASES.items()},
        state_rows=progress.state_rows,
        state_bytes=progress.state_bytes,
        lag_ms=lag_ms(progress),
        backlog_rows=_backlog(progress),
    )


def between(before: Reading, after: Reading) -> Sample | None:
    """Make the sample between two readings; None: of different attempts, or at the same time."""
    span = milliseconds(after.at - before.at)
    if before.attempt != after.attempt or span <= 0:
        return None
    return Sample(
        at=after.at,
        span_ms=span,
        input_rows=_added(before.input_rows, after.input_rows),
        output_rows=_added(before.output_rows, after.output_rows),
        batches=_added(before.batches, after.batches),
        busy_ms=_added(before.busy_ms, after.busy_ms),
        phases_ms={
            name: _added(before.phases_ms.get(name, 0), total)
            for name, total in after.phases_ms.items()
        },
        state_rows=after.state_rows,
        state_bytes=after.state_bytes,
        lag_ms=after.lag_ms,
        backlog_rows=after.backlog_rows,
    )


def _backlog(progress: RegionProgress) -> int | None:
    known = [one.backlog_rows for one in progress.sources if one.backlog_rows is not None]
    return sum(known) if known else None


def _added(before: int, after: int) -> int:
    """Return the increase of a count; a count that decreased has restarted from 0."""
    return after - before if after >= before else after
