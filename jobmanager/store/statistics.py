"""Figures of the whole cluster, for `/metrics`: a few queries, none of which grows with history."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import and_, func, select, true
from sqlalchemy.ext.asyncio import AsyncSession

from jobmanager.core.ids import JobId
from jobmanager.core.life.checkpoint import CheckpointStatus
from jobmanager.core.life.health import Health, shown_state
from jobmanager.core.life.job import JobStatus
from jobmanager.core.life.operation import OperationStatus
from jobmanager.protocol.progress_json import progress_from_json
from jobmanager.services.ports.figures import Figures, JobFigures
from jobmanager.store.tables import (
    IS_LIVE,
    PRUNED_RESTARTS,
    AttemptRow,
    CheckpointRow,
    JobRow,
    OperationRow,
    OutboxRow,
    RunnerRow,
    TotalRow,
)


class PostgresStatistics:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def read(self) -> Figures:
        states, restarts = await self._states()
        outbox = await self._session.execute(
            select(OutboxRow.target, func.count(), func.min(OutboxRow.created_at)).group_by(
                OutboxRow.target
            )
        )
        depths = {target: (int(count), oldest) for target, count, oldest in outbox}
        operations = await self._session.execute(
            select(OperationRow.kind, func.count())
            .where(OperationRow.status == OperationStatus.IN_PROGRESS)
            .group_by(OperationRow.kind)
        )
        runners = select(func.count()).where(RunnerRow.exited_at.is_(None))
        return Figures(
            states=states,
            restarts=restarts,
            jobs=await self._live_jobs(),
            outbox={target: count for target, (count, _) in depths.items()},
            outbox_oldest=min((oldest for _, oldest in depths.values()), default=None),
            operations={str(kind): int(count) for kind, count in operations},
            runners=int(await self._session.scalar(runners) or 0),
        )

    async def _states(self) -> tuple[dict[str, int], int]:
        rows = await self._session.execute(
            select(
                JobRow.status,
                JobRow.health,
                func.count(),
                func.sum(JobRow.failures),
            ).group_by(JobRow.status, JobRow.health)
        )
        pruned = select(TotalRow.value).where(TotalRow.name == PRUNED_RESTARTS)
        states: dict[str, int] = {}
        restarts = int(await self._session.scalar(pruned) or 0)
        for status, health, count, failures in rows:
            state = shown_state(status, health)
            states[state] = states.get(state, 0) + int(count)
            # the failure that ended a job was not followed by a restart
            restarts += int(failures) - (int(count) if status == JobStatus.FAILED else 0)
        return states, restarts

    async def _live_jobs(self) -> Sequence[JobFigures]:
        last = (
            select(CheckpointRow.triggered_at, CheckpointRow.ended_at, CheckpointRow.bytes)
            .where(
                CheckpointRow.job_id == JobRow.id,
                CheckpointRow.status == CheckpointStatus.COMPLETED,
            )
            .order_by(CheckpointRow.number.desc())
            .limit(1)
            .lateral("last")
        )
        rows = await self._session.execute(
            select(
                JobRow.id,
                JobRow.name,
                JobRow.status,
                JobRow.health,
                JobRow.failures.label("restarts"),
                JobRow.failed_checkpoints,
                AttemptRow.progress,
                RunnerRow.heartbeat_at,
                last.c.triggered_at,
                last.c.ended_at,
                last.c.bytes,
            )
            .join(
                AttemptRow,
                and_(AttemptRow.job_id == JobRow.id, AttemptRow.number == JobRow.attempt),
            )
            .outerjoin(
                RunnerRow, and_(RunnerRow.job_id == JobRow.id, RunnerRow.attempt == JobRow.attempt)
            )
            .outerjoin(last, true())
            .where(IS_LIVE)
        )
        return [_job(row) for row in rows]


def _job(row: Any) -> JobFigures:
    took: timedelta | None = row.ended_at - row.triggered_at if row.ended_at else None
    return JobFigures(
        id=JobId(row.id),
        name=row.name,
        is_healthy=row.status == JobStatus.RUNNING and row.health == Health.HEALTHY,
        restarts=int(row.restarts),
        failed_checkpoints=row.failed_checkpoints,
        checkpointed_at=row.ended_at,
        checkpoint_took=took,
        checkpoint_bytes=row.bytes,
        heartbeat_at=row.heartbeat_at,
        progress=progress_from_json(row.progress),
    )
