"""Jars in Postgres: their rows. Their code is in storage, as artifacts."""

from collections.abc import Sequence

from sqlalchemy import delete, func, insert, select
from sqlalchemy.ext.asyncio import AsyncSession

from jobmanager.core.errors import JarNotFound
from jobmanager.core.ids import ArtifactId
from jobmanager.core.jar import Jar
from jobmanager.store.tables import JarRow


class PostgresJars:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def add(self, jar: Jar) -> None:
        await self._session.execute(
            insert(JarRow).values(
                id=jar.id,
                name=jar.name,
                uploaded_at=jar.uploaded_at,
                graph=None if jar.graph is None else dict(jar.graph),
                artifact=jar.artifact,
                brought_artifact=jar.brought_artifact,
            )
        )

    async def get(self, jar_id: str) -> Jar:
        row = await self._session.scalar(select(JarRow).where(JarRow.id == jar_id))
        if row is None:
            raise JarNotFound(f"there is no jar {jar_id}: GET /jars lists those that there are")
        return _jar(row)

    async def all(self, limit: int) -> Sequence[Jar]:
        query = select(JarRow).order_by(JarRow.uploaded_at.desc(), JarRow.id).limit(limit)
        return [_jar(row) for row in await self._session.scalars(query)]

    async def count(self) -> int:
        return await self._session.scalar(select(func.count()).select_from(JarRow)) or 0

    async def delete(self, jar_id: str) -> None:
        await self._session.execute(delete(JarRow).where(JarRow.id == jar_id))

    async def is_needed(self, artifact_id: ArtifactId) -> bool:
        found = await self._session.scalar(
            select(JarRow.id).where(JarRow.artifact == artifact_id).limit(1)
        )
        return found is not None


def _jar(row: JarRow) -> Jar:
    return Jar(
        id=row.id,
        name=row.name,
        uploaded_at=row.uploaded_at,
        graph=row.graph,
        artifact=None if row.artifact is None else ArtifactId(row.artifact),
        brought_artifact=row.brought_artifact,
    )
