"""The native route about a job over time, from stored samples."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import AwareDatetime

from jobmanager.api.context import Ctx, JobIdPath, Uow
from jobmanager.api.shapes.samples import SamplesResponse, SeriesResponse
from jobmanager.core.durations import milliseconds
from jobmanager.core.errors import MalformedRequest
from jobmanager.core.sample import PHASES
from jobmanager.services.ports.figures import SeriesPoint

router = APIRouter(tags=["jobs"])
_FINEST = timedelta(seconds=10)
_LONGEST = timedelta(days=31)


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
    )


def _phase(name: str) -> Callable[[SeriesPoint], int]:
    return lambda one: one.phases_ms.get(name, 0)


def _of_a_batch(
    points: Sequence[SeriesPoint], spent: Callable[[SeriesPoint], int]
) -> list[float | None]:
    return [round(spent(one) / one.batches, 1) if one.batches else None for one in points]


def _per_second(one: SeriesPoint, rows: int) -> float:
    return round(1000 * rows / one.span_ms, 2)
