"""The contents of artifacts, for the JobManager's use cases."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from jobmanager.core.artifact import FoundArtifact
from jobmanager.core.errors import StorageUnavailable
from jobmanager.core.ids import ArtifactId
from jobmanager.files.artifacts import ArtifactShelf


class SharedArtifactFiles:
    def __init__(self, root: Path) -> None:
        self._shelf = ArtifactShelf(root)

    async def put(self, artifact_id: ArtifactId, name: str, content: bytes) -> None:
        try:
            await asyncio.to_thread(self._shelf.put, artifact_id, name, content)
        except OSError as error:
            raise StorageUnavailable(f"{name} cannot be stored: {error}") from error

    async def remove(self, artifact_id: ArtifactId) -> None:
        await asyncio.to_thread(self._shelf.remove, artifact_id)

    async def found(self) -> Mapping[ArtifactId, FoundArtifact]:
        def look() -> dict[ArtifactId, FoundArtifact]:
            found = {}
            for path in self._shelf.found():
                status = path.stat()
                found[ArtifactId(path.parent.name)] = FoundArtifact(
                    path.parent.as_uri(),
                    status.st_size,
                    datetime.fromtimestamp(status.st_mtime, UTC),
                )
            return found

        return await asyncio.to_thread(look)

    async def read_local(self, path: str) -> bytes:
        return await asyncio.to_thread(Path(path).read_bytes)
