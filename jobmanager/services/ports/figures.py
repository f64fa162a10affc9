"""Figures: samples, totals, and a line about each job."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from jobmanager.core.graph.meta import JobMeta
from jobmanager.core.ids import (
    JobId,
)
from jobmanager.core.progress import RegionProgress
from jobmanager.core.sample import Sample


@dataclass(frozen=True, slots=True)
class JobFigures:
    """The figures of one live job."""

    id: JobId
    name: str
    is_healthy: bool
    restarts: int
    failed_checkpoints: int
    checkpointed_at: datetime | None
    checkpoint_took: timedelta | None
    checkpoint_bytes: int | None
    heartbeat_at: datetime | None
    progress: Sequence[RegionProgress]


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a cluster."""

    states: Mapping[str, int]
    restarts: int
    jobs: Sequence[JobFigures]
    outbox: Mapping[str, int]
    outbox_oldest: datetime | None
    operations: Mapping[str, int]
    runners: int


@dataclass(frozen=True, slots=True)
class SeriesPoint:
    """The samples of one bin: sums, and the largest values of sizes and lag."""

    at: datetime
    """The beginning of the bin."""
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


@dataclass(frozen=True, slots=True)
class SummaryFilter:
    limit: int
    before: tuple[datetime, JobId] | None = None
    """Continue after the job that was submitted at this time."""
    states: Sequence[str] = ()
    """States as shown to users; empty: all."""
    text: str = ""
    """Text in the name, or at the start of the id."""
    only: Sequence[JobId] = ()
    labels: Sequence[tuple[str, str | None]] = ()
    """Names and texts of labels, all of which the job has; None: any text."""


@dataclass(frozen=True, slots=True)
class JobSummary:
    """One line about a job, read without its graph."""

    id: JobId
    name: str
    mode: str
    state: str
    reason: str
    since: datetime
    submitted_at: datetime
    ended_at: datetime | None
    running_since: datetime | None
    attempt: int
    restarts: int
    parallelism: int
    failed_checkpoints: int
    restored_from: str | None
    progress: Sequence[RegionProgress]
    """Of a live job."""
    checkpoint: int | None
    checkpoint_triggered_at: datetime | None
    checkpoint_ended_at: datetime | None
    checkpoint_bytes: int | None
    meta: JobMeta


class Statistics(Protocol):
    async def read(self) -> Figures: ...


class Samples(Protocol):
    async def add(self, samples: Iterable[tuple[JobId, str, Sample]]) -> None: ...
    async def series(
        self, job_id: JobId, since: datetime, until: datetime, step: timedelta
    ) -> Mapping[str, Sequence[SeriesPoint]]: ...
    async def input_rates(
        self, jobs: Sequence[JobId], since: datetime, step: timedelta
    ) -> Mapping[JobId, Sequence[tuple[datetime, float]]]: ...
    async def sum_up(self, finer_s: int, coarser_s: int, before: datetime) -> int: ...
    async def prune(self, before: datetime, resolution_s: int) -> None: ...


class Summaries(Protocol):
    async def page(self, wanted: SummaryFilter) -> Sequence[JobSummary]: ...
    async def counts(self) -> Mapping[str, int]: ...
