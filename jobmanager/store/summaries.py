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
from jobmanager.store.tables import IS_LIVE, AttemptRow, CheckpointRow, JobRow

_STATE = case((JobRow.health == Health.HEALTHY, JobRow.status), else_=JobRow.health)
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
            CheckpointRow.number,
            CheckpointRow.triggered_at,
            CheckpointRow.ended_at,
            CheckpointRow.bytes,
        )
        .where(
            CheckpointRow.job_id == JobRow.id,
            CheckpointRow.status == CheckpointStatus.COMPLETED,
        )
        .order_by(CheckpointRow.number.desc())
        .limit(1)
        .lateral("last")
    )
    is_live = JobRow.status.not_in(_ENDED)
    return (
        select(
            JobRow.id,
            JobRow.name,
            JobRow.graph["mode"].as_string().label("mode"),
            JobRow.graph[meta.FIELD].label("meta"),
            JobRow.status,
            _STATE.label("state"),
            func.coalesce(JobRow.health_reason, JobRow.reason).label("reason"),
            func.coalesce(JobRow.health_since, JobRow.since).label("since"),
            JobRow.since.label("status_since"),
            JobRow.submitted_at,
            JobRow.ended_at,
            JobRow.attempt,
            JobRow.failures,
            JobRow.parallelism,
            JobRow.failed_checkpoints,
            JobRow.restore_point["name"].as_string().label("restored_from"),
            case((is_live, AttemptRow.progress), else_=cast(null(), JSONB)).label("progress"),
            last.c.number,
            last.c.triggered_at,
            last.c.ended_at.label("checkpoint_ended_at"),
            last.c.bytes,
        )
        .join(
            AttemptRow,
            and_(AttemptRow.job_id == JobRow.id, AttemptRow.number == JobRow.attempt),
        )
        .outerjoin(last, true())
        .order_by(JobRow.submitted_at.desc(), JobRow.id.desc())
    )


def _filtered(query: Select[Any], wanted: SummaryFilter) -> Select[Any]:
    if wanted.before is not None:
        query = query.where(tuple_(JobRow.submitted_at, JobRow.id) < tuple_(*wanted.before))
    if wanted.states:
        query = query.where(_STATE.in_(wanted.states))
        if not _ENDED.intersection(wanted.states):
            query = query.where(IS_LIVE)
    if wanted.only:
        query = query.where(JobRow.id.in_(wanted.only))
    for name, text in wanted.labels:
        found = JobRow.graph[meta.FIELD]["labels"][name].as_string()
        query = query.where(found.is_not(None) if text is None else found == text)
    if wanted.text:
        id_text = func.replace(cast(JobRow.id, Text), "-", "")
        query = query.where(
            or_(
                JobRow.name.icontains(wanted.text, autoescape=True),
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
