"""The native routes about a job over time, from stored samples."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import AwareDatetime

from jobmanager.api.context import Ctx, JobIdPath, Uow
from jobmanager.api.shapes.samples import LagResponse, SamplesResponse, SeriesResponse
from jobmanager.core.durations import milliseconds
from jobmanager.core.errors import MalformedRequest
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.graph.sources import Source
from jobmanager.core.lag_trend import LagPoint, lag_trend
from jobmanager.core.sample import PHASES
from jobmanager.services.ports.figures import SeriesPoint

router = APIRouter(tags=["jobs"])
_FINEST = timedelta(seconds=10)
_LONGEST = timedelta(days=31)
_TREND = timedelta(minutes=10)


@router.get("/jobs/{jobid}/samples", summary="Throughput, batch times, state and lag over time")
async def samples(
    job_id: JobIdPath,
    context: Ctx,
    uow: Uow,
    since: Annotated[AwareDatetime | None, Query(description="By default 15 minutes ago.")] = None,
    until: Annotated[AwareDatetime | None, Query(description="By default now.")] = None,
    points: Annotated[int, Query(ge=2, le=2000, description="At most so many bins.")] = 300,
) -> SamplesResponse:
    """Samples are stored every 10 seconds for two hours, every minute for two days, every ten
    minutes for a month.
    """
    end = until or context.clock()
    begin = since or end - timedelta(minutes=15)
    if not timedelta() < end - begin <= _LONGEST:
        raise MalformedRequest("until has to be after since, by at most 31 days")
    # whole seconds: bins stay where they are when the page asks again
    step = max(_FINEST, timedelta(seconds=-(-(end - begin).total_seconds() // points)))
    async with uow:
        await uow.jobs.get(job_id)
        found = await uow.samples.series(job_id, begin, end, step)
    return SamplesResponse(
        since=begin,
        until=end,
        step_ms=milliseconds(step),
        regions=[_series(region, points) for region, points in found.items()],
    )


@router.get("/jobs/{jobid}/lag", summary="Whether a job catches up with its input, and when")
async def lag(job_id: JobIdPath, context: Ctx, uow: Uow) -> LagResponse:
    """The trend of the last ten minutes; `unknown` without a minute of samples."""
    now = context.clock()
    async with uow:
        stored = await uow.jobs.get(job_id)
        attempt = await uow.attempts.get(job_id, stored.job.attempt)
        # a restart is no trend: only what the present attempt did counts
        begin = max(now - _TREND, attempt.attempt.launched_at)
        found = await uow.samples.series(job_id, begin, now, _FINEST) if begin < now else {}
    trend = lag_trend(_furthest_behind(found.values()), _normal_ms(stored.graph))
    return LagResponse.model_validate(asdict(trend))


def _furthest_behind(regions: Iterable[Sequence[SeriesPoint]]) -> list[LagPoint]:
    """Return for each time the largest lag of a region, and the rows that all have left."""
    by_time: dict[datetime, list[SeriesPoint]] = {}
    for points in regions:
        for one in points:
            by_time.setdefault(one.at, []).append(one)
    found = []
    for at, points in sorted(by_time.items()):
        lags = [one.lag_ms for one in points if one.lag_ms is not None]
        rows = [one.backlog_rows for one in points if one.backlog_rows is not None]
        found.append(LagPoint(at, max(lags) if lags else None, sum(rows) if rows else None))
    return found


def _normal_ms(graph: JobGraph) -> int:
    """Return the lag of a job that has caught up: the largest delay of its watermarks."""
    sources = [one for one in graph.vertices if isinstance(one, Source)]
    delays = [milliseconds(one.watermark.delay) for one in sources if one.watermark is not None]
    return max(delays, default=0)


def _series(region: str, points: Sequence[SeriesPoint]) -> SeriesResponse:
    return SeriesResponse(
        region=region,
        at=[one.at for one in points],
        input_rows_per_second=[_per_second(one, one.input_rows) for one in points],
        output_rows_per_second=[_per_second(one, one.output_rows) for one in points],
        batches=[one.batches for one in points],
        batch_ms=_of_a_batch(points, lambda one: one.busy_ms),
        phases_ms={name: _of_a_batch(points, _phase(name)) for name in PHASES.values()},
        busy=[round(min(1.0, one.busy_ms / one.span_ms), 3) for one in points],
        state_rows=[one.state_rows for one in points],
        state_bytes=[one.state_bytes for one in points],
        lag_ms=[one.lag_ms for one in points],
        backlog_rows=[one.backlog_rows for one in points],
    )


def _phase(name: str) -> Callable[[SeriesPoint], int]:
    return lambda one: one.phases_ms.get(name, 0)


def _of_a_batch(
    points: Sequence[SeriesPoint], spent: Callable[[SeriesPoint], int]
) -> list[float | None]:
    return [round(spent(one) / one.batches, 1) if one.batches else None for one in points]


def _per_second(one: SeriesPoint, rows: int) -> float:
    return round(1000 * rows / one.span_ms, 2)
