"""Reads a line about each job, in one query and without parsing graphs."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Select, and_, case, cast, func, null, or_, select, true, tuple_
from sqlalchemy import String as Text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncSession

from jobmanager.core.graph import meta
from jobmanager.core.ids import JobId
from jobmanager.core.life.checkpoint import CheckpointStatus
from jobmanager.core.life.health import Health
from jobmanager.core.life.job import JobStatus
from jobmanager.protocol.progress_json import progress_from_json
from jobmanager.services.ports.figures import JobSummary, SummaryFilter
from jobmanager.store.tables import IS_LIVE, AttemptRow, CheckpointRow, JobRow, table_of

# The tables themselves: rows of classes would take longer to read than the rest of a page.
_JOBS, _ATTEMPTS = table_of(JobRow), table_of(AttemptRow)
_CHECKPOINTS = table_of(CheckpointRow)
_STATE = case((_JOBS.c.health == Health.HEALTHY, _JOBS.c.status), else_=_JOBS.c.health)
"""The same as `core.life.health.shown_state`; a test compares the two."""


_COUNTS = select(_STATE, func.count()).group_by(_STATE)
_ENDED = frozenset(status for status in JobStatus if status.is_terminal)


class PostgresSummaries:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def page(self, wanted: SummaryFilter) -> Sequence[JobSummary]:
        """Return a page of jobs, the newest first."""
        rows = await self._session.execute(_filtered(_lines(), wanted))
        return [_summary(row) for row in rows]

    async def counts(self) -> Mapping[str, int]:
        rows = await self._session.execute(_COUNTS)
        return {str(state): int(count) for state, count in rows}


@cache
def _lines() -> Select[Any]:
    """To make the statement takes longer than to send it, so it is made once."""
    last = (
        select(
            _CHECKPOINTS.c.number,
            _CHECKPOINTS.c.triggered_at,
            _CHECKPOINTS.c.ended_at,
            _CHECKPOINTS.c.bytes,
        )
        .where(
            _CHECKPOINTS.c.job_id == _JOBS.c.id,
            _CHECKPOINTS.c.status == CheckpointStatus.COMPLETED,
        )
        .order_by(_CHECKPOINTS.c.number.desc())
        .limit(1)
        .lateral("last")
    )
    is_live = _JOBS.c.status.not_in(_ENDED)
    return (
        select(
            _JOBS.c.id,
            _JOBS.c.name,
            _JOBS.c.graph["mode"].as_string().label("mode"),
            _JOBS.c.graph[meta.FIELD].label("meta"),
            _JOBS.c.status,
            _STATE.label("state"),
            func.coalesce(_JOBS.c.health_reason, _JOBS.c.reason).label("reason"),
            func.coalesce(_JOBS.c.health_since, _JOBS.c.since).label("since"),
            _JOBS.c.since.label("status_since"),
            _JOBS.c.submitted_at,
            _JOBS.c.ended_at,
            _JOBS.c.attempt,
            _JOBS.c.failures,
            _JOBS.c.parallelism,
            _JOBS.c.failed_checkpoints,
            _JOBS.c.restore_point["name"].as_string().label("restored_from"),
            case((is_live, _ATTEMPTS.c.progress), else_=cast(null(), JSONB)).label("progress"),
            last.c.number,
            last.c.triggered_at,
            last.c.ended_at.label("checkpoint_ended_at"),
            last.c.bytes,
        )
        .join(
            _ATTEMPTS,
            and_(_ATTEMPTS.c.job_id == _JOBS.c.id, _ATTEMPTS.c.number == _JOBS.c.attempt),
        )
        .outerjoin(last, true())
        .order_by(_JOBS.c.submitted_at.desc(), _JOBS.c.id.desc())
    )


def _filtered(query: Select[Any], wanted: SummaryFilter) -> Select[Any]:
    if wanted.before is not None:
        query = query.where(tuple_(_JOBS.c.submitted_at, _JOBS.c.id) < tuple_(*wanted.before))
    if wanted.states:
        query = query.where(_STATE.in_(wanted.states))
        if not _ENDED.intersection(wanted.states):
            query = query.where(IS_LIVE)
    if wanted.only:
        query = query.where(_JOBS.c.id.in_(wanted.only))
    for name, text in wanted.labels:
        found = _JOBS.c.graph[meta.FIELD]["labels"][name].as_string()
        query = query.where(found.is_not(None) if text is None else found == text)
    if wanted.text:
        id_text = func.replace(cast(_JOBS.c.id, Text), "-", "")
        query = query.where(
            or_(
                _JOBS.c.name.icontains(wanted.text, autoescape=True),
                id_text.istartswith(wanted.text, autoescape=True),
            )
        )
    return query.limit(wanted.limit)


def _summary(row: Any) -> JobSummary:
    is_running = row.status == JobStatus.RUNNING
    return JobSummary(
        id=JobId(row.id),
        name=row.name,
        mode=row.mode or "streaming",
        state=row.state,
        reason=row.reason,
        since=row.since,
        submitted_at=row.submitted_at,
        ended_at=row.ended_at,
        running_since=row.status_since if is_running else None,
        attempt=row.attempt,
        # the failure that ended a job was not followed by a restart
        restarts=row.failures - (row.status == JobStatus.FAILED),
        parallelism=row.parallelism,
        failed_checkpoints=row.failed_checkpoints,
        restored_from=row.restored_from,
        progress=progress_from_json(row.progress),
        checkpoint=row.number,
        checkpoint_triggered_at=row.triggered_at,
        checkpoint_ended_at=row.checkpoint_ended_at,
        checkpoint_bytes=row.bytes,
        meta=meta.stored(row.meta),
    )
