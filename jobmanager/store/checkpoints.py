"""Checkpoints, their acks and the key-group assignment in Postgres."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, delete, func, insert, select, text, update
from sqlalchemy.ext.asyncio import AsyncSession

from jobmanager.core.errors import CheckpointNotFound
from jobmanager.core.ids import CheckpointNumber, JobId, OperationId
from jobmanager.core.life.checkpoint import CheckpointKind, CheckpointStatus
from jobmanager.core.life.records import StoredCheckpoint
from jobmanager.store import mapping
from jobmanager.store.tables import (
    CheckpointRow,
    CheckpointTriggerRow,
    JobRow,
    KeyGroupsRow,
    SubtaskRow,
)

# One statement, whose parameters take less time than those of a row for each subtask.
_ADD_KEY_GROUPS = text("""
INSERT INTO key_group_assignments (job_id, vertex, subtask, key_groups)
SELECT :job, r.vertex, r.subtask, ARRAY(
    SELECT CAST(g.value AS integer)
    FROM jsonb_array_elements_text(r.key_groups) WITH ORDINALITY AS g(value, place)
    ORDER BY g.place)
FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r(vertex text, subtask bigint, key_groups jsonb)
""")


class PostgresCheckpoints:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def get(self, job_id: JobId, number: CheckpointNumber) -> StoredCheckpoint:
        found = await self._find(CheckpointRow.job_id == job_id, CheckpointRow.number == number)
        if not found:
            raise CheckpointNotFound(f"job {job_id.hex} has no checkpoint {number}")
        return found[0]

    async def of_job(self, job_id: JobId, limit: int) -> Sequence[StoredCheckpoint]:
        return await self._find(CheckpointRow.job_id == job_id, limit=limit)

    async def counts(self, job_id: JobId) -> Mapping[str, int]:
        rows = await self._session.execute(
            select(CheckpointRow.status, func.count())
            .where(CheckpointRow.job_id == job_id)
            .group_by(CheckpointRow.status)
        )
        pruned = await self._session.scalar(
            select(JobRow.pruned_checkpoints).where(JobRow.id == job_id)
        )
        counted = Counter({str(status): int(count) for status, count in rows})
        return counted + Counter(pruned or {})

    async def restorable(self, job_id: JobId) -> Sequence[CheckpointNumber]:
        found = await self._session.scalars(
            select(CheckpointRow.number)
            .where(
                CheckpointRow.job_id == job_id,
                CheckpointRow.status == CheckpointStatus.COMPLETED,
                CheckpointRow.kind != CheckpointKind.SAVEPOINT,
                CheckpointRow.discarded_at.is_(None),
            )
            .order_by(CheckpointRow.number)
        )
        return [CheckpointNumber(number) for number in found]

    async def note_discarded(self, job_id: JobId, number: CheckpointNumber, at: datetime) -> None:
        """Mark the checkpoint as discarded; its row and its acks are kept as history."""
        await self._session.execute(
            update(CheckpointRow)
            .where(CheckpointRow.job_id == job_id, CheckpointRow.number == number)
            .values(discarded_at=at)
            .execution_options(synchronize_session=False)
        )

    async def expired(self, now: datetime) -> Sequence[tuple[JobId, CheckpointNumber]]:
        rows = await self._session.execute(
            select(CheckpointRow.job_id, CheckpointRow.number).where(
                CheckpointRow.status == CheckpointStatus.IN_PROGRESS,
                CheckpointRow.expires_at <= now,
            )
        )
        return [(JobId(job_id), CheckpointNumber(number)) for job_id, number in rows]

    async def triggered_by(self, job_id: JobId, trigger: OperationId) -> CheckpointNumber | None:
        found = await self._session.scalar(
            select(CheckpointTriggerRow.checkpoint).where(
                CheckpointTriggerRow.job_id == job_id, CheckpointTriggerRow.trigger_id == trigger
            )
        )
        return None if found is None else CheckpointNumber(found)

    async def note_trigger(
        self, job_id: JobId, number: CheckpointNumber, trigger: OperationId
    ) -> None:
        await self._session.execute(
            insert(CheckpointTriggerRow).values(
                job_id=job_id, trigger_id=trigger, checkpoint=number
            )
        )

    async def _find(
        self, *conditions: ColumnElement[bool], limit: int | None = None
    ) -> list[StoredCheckpoint]:
        query = (
            select(CheckpointRow)
            .where(*conditions)
            .order_by(CheckpointRow.number.desc())
            .limit(limit)
            .execution_options(populate_existing=True)
        )
        rows = list(await self._session.scalars(query))
        if not rows:
            return []
        subtasks = await self._session.scalars(
            select(SubtaskRow)
            .where(
                SubtaskRow.job_id.in_({row.job_id for row in rows}),
                SubtaskRow.checkpoint.in_({row.number for row in rows}),
            )
            .order_by(SubtaskRow.region, SubtaskRow.vertex, SubtaskRow.subtask)
            .execution_options(populate_existing=True)
        )
        by_checkpoint: dict[object, list[SubtaskRow]] = {}
        for one in subtasks:
            by_checkpoint.setdefault((one.job_id, one.checkpoint), []).append(one)
        return [
            mapping.stored_checkpoint(row, by_checkpoint.get((row.job_id, row.number), []))
            for row in rows
        ]


class PostgresKeyGroups:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def replace(self, job_id: JobId, owned: Mapping[tuple[str, int], Sequence[int]]) -> None:
        await self._session.execute(delete(KeyGroupsRow).where(KeyGroupsRow.job_id == job_id))
        await self.add(job_id, owned)

    async def add(self, job_id: JobId, owned: Mapping[tuple[str, int], Sequence[int]]) -> None:
        """Write the assignment of a job that has none."""
        if owned:
            rows = [
                {"vertex": vertex, "subtask": subtask, "key_groups": groups}
                for (vertex, subtask), groups in owned.items()
            ]
            told = {"job": job_id, "rows": json.dumps(rows, default=list)}
            await self._session.execute(_ADD_KEY_GROUPS, told)

    async def of_job(self, job_id: JobId) -> Mapping[tuple[str, int], Sequence[int]]:
        rows = await self._session.scalars(
            select(KeyGroupsRow)
            .where(KeyGroupsRow.job_id == job_id)
            .order_by(KeyGroupsRow.vertex, KeyGroupsRow.subtask)
        )
        return {(row.vertex, row.subtask): row.key_groups for row in rows}
