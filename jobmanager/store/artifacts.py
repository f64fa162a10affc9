"""Artifacts in Postgres: their rows. Their contents are in storage."""

from collections.abc import Mapping, Sequence, Set
from datetime import datetime
from typing import Any

from sqlalchemy import cast, delete, func, select
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.ext.asyncio import AsyncSession

from jobmanager.core.artifact import Artifact
from jobmanager.core.errors import ArtifactNotFound
from jobmanager.core.graph.module_names import ModuleNames
from jobmanager.core.ids import ArtifactId, JobId
from jobmanager.core.life.job import JobStatus
from jobmanager.core.life.operation import OperationStatus
from jobmanager.store.tables import ArtifactRow, JobRow, OperationRow


class PostgresArtifacts:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def totals(self) -> tuple[int, int]:
        query = select(func.count(), func.coalesce(func.sum(ArtifactRow.bytes), 0))
        count, total = (await self._session.execute(query.select_from(ArtifactRow))).one()
        return count, int(total)

    async def add(self, artifact: Artifact) -> None:
        # Of two simultaneous uploads of the same content, the second finds the row.
        values = {
            "id": artifact.id,
            "name": artifact.name,
            "bytes": artifact.bytes,
            "modules": _modules_values(artifact.modules),
            "uploaded_at": artifact.uploaded_at,
        }
        await self._session.execute(insert(ArtifactRow).values(**values).on_conflict_do_nothing())

    async def get(self, artifact_id: ArtifactId) -> Artifact:
        row = await self._session.scalar(select(ArtifactRow).where(ArtifactRow.id == artifact_id))
        if row is None:
            raise ArtifactNotFound(f"artifact {artifact_id} not found")
        return _artifact(row)

    async def hold(self, artifact_id: ArtifactId, *, to_delete: bool = False) -> Artifact | None:
        query = select(ArtifactRow).where(ArtifactRow.id == artifact_id)
        row = await self._session.scalar(
            query.with_for_update(read=not to_delete).execution_options(populate_existing=True)
        )
        return _artifact(row) if row else None

    async def named(self, name: str) -> Artifact | None:
        row = await self._session.scalar(
            select(ArtifactRow)
            .where(ArtifactRow.name == name)
            .order_by(ArtifactRow.uploaded_at.desc(), ArtifactRow.id)
            .limit(1)
        )
        return _artifact(row) if row else None

    async def all(self, limit: int, before: datetime | None) -> Sequence[Artifact]:
        query = select(ArtifactRow).order_by(ArtifactRow.uploaded_at.desc()).limit(limit)
        if before is not None:
            query = query.where(ArtifactRow.uploaded_at < before)
        return [_artifact(row) for row in await self._session.scalars(query)]

    async def ids(self) -> Set[ArtifactId]:
        return {ArtifactId(one) for one in await self._session.scalars(select(ArtifactRow.id))}

    async def delete(self, artifact_id: ArtifactId) -> None:
        await self._session.execute(delete(ArtifactRow).where(ArtifactRow.id == artifact_id))

    async def users(self, artifact_id: ArtifactId) -> Sequence[JobId]:
        ended = [status for status in JobStatus if status.is_terminal]
        jobs = await self._session.scalars(
            select(JobRow.id)
            .where(
                JobRow.status.not_in(ended),
                cast(JobRow.graph["artifacts"], JSONB).contains([artifact_id]),
            )
            .order_by(JobRow.submitted_at)
        )
        found = [JobId(one) for one in jobs]
        # A rescale or upgrade under way may still end with either graph.
        changes = await self._session.execute(
            select(OperationRow.job_id, OperationRow.change).where(
                OperationRow.status == OperationStatus.IN_PROGRESS, OperationRow.change.is_not(None)
            )
        )
        for job_id, change in changes:
            named = {
                one
                for side in ("before", "after")
                for one in change[side]["document"].get("artifacts") or ()
            }
            if artifact_id in named and job_id not in found:
                found.append(JobId(job_id))
        return found


def _modules_values(modules: Mapping[str, ModuleNames]) -> dict[str, Any]:
    return {
        name: {"names": sorted(one.names), "is_open": one.is_open, "error": one.error}
        for name, one in modules.items()
    }


def _artifact(row: ArtifactRow) -> Artifact:
    return Artifact(
        id=ArtifactId(row.id),
        name=row.name,
        bytes=row.bytes,
        modules={
            name: ModuleNames(frozenset(one["names"]), one["is_open"], one["error"])
            for name, one in row.modules.items()
        },
        uploaded_at=row.uploaded_at,
    )
