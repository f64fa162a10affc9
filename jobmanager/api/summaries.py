"""A line about each job: what the dashboard's first page shows."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query

from jobmanager.api.conditional_reads import IF_NONE_MATCH
from jobmanager.api.context import Ctx, Uow, hex_id
from jobmanager.api.json_answer import JsonAnswer
from jobmanager.api.shapes.status import LastCheckpoint, SummaryItem, SummaryPage, Traffic
from jobmanager.api.status import meta_shape
from jobmanager.core.durations import milliseconds
from jobmanager.core.errors import MalformedRequest
from jobmanager.core.graph.meta import MOST_LABELS
from jobmanager.core.ids import JobId
from jobmanager.core.progress import largest_lag_ms
from jobmanager.services.ports.figures import JobSummary, SummaryFilter

router = APIRouter(tags=["jobs"])
SPARKLINE = timedelta(minutes=5)
_STEP = timedelta(seconds=10)
_MOST = 2_000


@router.get(
    "/jobs/summary",
    summary="Jobs, a line each, the newest first",
    response_model=SummaryPage,
    openapi_extra={"parameters": [IF_NONE_MATCH]},
)
async def summaries(
    context: Ctx,
    uow: Uow,
    state: Annotated[list[str] | None, Query(description="As in the status; several: any.")] = None,
    q: Annotated[
        str, Query(max_length=200, description="Text in the name, or the beginning of the id.")
    ] = "",
    job: Annotated[list[str] | None, Query(description="Only these ids.")] = None,
    label: Annotated[
        list[str] | None,
        Query(
            max_length=MOST_LABELS,
            description="`name=text`, or `name` with any text, from the graph's `meta`; "
            "several: all of them.",
        ),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=_MOST)] = 100,
    cursor: str | None = None,
) -> JsonAnswer:
    wanted = SummaryFilter(
        limit=limit,
        before=_position(cursor) if cursor else None,
        states=state or (),
        text=q.strip(),
        only=[JobId(hex_id("job", one)) for one in job or ()],
        labels=[_label(one) for one in label or ()],
    )
    since = context.clock() - SPARKLINE
    async with uow:
        found = await uow.summaries.page(wanted)
        counts = await uow.summaries.counts()
        live = [one.id for one in found if one.ended_at is None]
        rates = await uow.samples.input_rates(live, since, _STEP) if live else {}
    page = SummaryPage(
        items=[_item(one, _bins(rates.get(one.id, ()), since)) for one in found],
        next=_cursor(found[-1]) if len(found) == limit else None,
        counts=dict(counts),
    )
    return JsonAnswer(page)


def _item(one: JobSummary, recent: list[float]) -> SummaryItem:
    return SummaryItem(
        id=one.id.hex,
        name=one.name,
        mode=one.mode,
        state=one.state,
        reason=one.reason,
        since=one.since,
        submitted_at=one.submitted_at,
        ended_at=one.ended_at,
        running_since=one.running_since,
        attempt=one.attempt,
        restarts=one.restarts,
        parallelism=one.parallelism,
        failed_checkpoints=one.failed_checkpoints,
        restored_from=one.restored_from,
        traffic=_traffic(one),
        lag=largest_lag_ms(one.progress),
        last_checkpoint=_last(one),
        recent=recent,
        meta=meta_shape(one.meta),
    )


def _traffic(one: JobSummary) -> Traffic | None:
    if not one.progress:
        return None
    return Traffic(
        input_rows=sum(region.input_rows for region in one.progress),
        output_rows=sum(region.output_rows for region in one.progress),
        input_rows_per_second=sum(region.input_rows_per_second for region in one.progress),
        is_idle=all(region.is_idle for region in one.progress),
    )


def _last(one: JobSummary) -> LastCheckpoint | None:
    if one.checkpoint is None or one.checkpoint_ended_at is None:
        return None
    assert one.checkpoint_triggered_at is not None
    return LastCheckpoint(
        number=one.checkpoint,
        completed_at=one.checkpoint_ended_at,
        duration_ms=milliseconds(one.checkpoint_ended_at - one.checkpoint_triggered_at),
        bytes=one.checkpoint_bytes or 0,
    )


def _bins(rates: Sequence[tuple[datetime, float]], since: datetime) -> list[float]:
    """Return the bins from the first with a sample on; bins without a sample are 0."""
    if not rates:
        return []
    by_bin: Mapping[int, float] = {int((at - since) / _STEP): rate for at, rate in rates}
    return [round(by_bin.get(n, 0.0), 2) for n in range(min(by_bin), max(by_bin) + 1)]


def _label(wanted: str) -> tuple[str, str | None]:
    name, sign, text = wanted.partition("=")
    return name, text if sign else None


def _cursor(one: JobSummary) -> str:
    return f"{one.submitted_at.isoformat()}~{one.id.hex}"


def _position(cursor: str) -> tuple[datetime, JobId]:
    at, _, job = cursor.partition("~")
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        raise MalformedRequest(
            f"{cursor!r} is not a cursor: use the value of `next` in the previous page"
        ) from None
    if moment.tzinfo is None:
        raise MalformedRequest(
            f"{cursor!r} is not a cursor: use the value of `next` in the previous page"
        )
    return moment, JobId(hex_id("cursor", job))
