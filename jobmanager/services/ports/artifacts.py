"""Artifacts: their rows in the database, and their contents in storage."""

from collections.abc import Mapping, Sequence, Set
from datetime import datetime
from typing import Protocol

from jobmanager.core.artifact import Artifact, FoundArtifact
from jobmanager.core.ids import (
    ArtifactId,
    JobId,
)


class Artifacts(Protocol):
    async def add(self, artifact: Artifact) -> None: ...
    async def get(self, artifact_id: ArtifactId) -> Artifact: ...
    async def hold(self, artifact_id: ArtifactId, *, to_delete: bool = False) -> Artifact | None:
        """Return the artifact under a lock, None if it does not exist. Until the commit no other
        transaction can delete or use it.
        """

    async def named(self, name: str) -> Artifact | None:
        """Return the artifact that was uploaded last under that name."""

    async def all(self, limit: int, before: datetime | None) -> Sequence[Artifact]: ...
    async def ids(self) -> Set[ArtifactId]: ...
    async def delete(self, artifact_id: ArtifactId) -> None: ...
    async def users(self, artifact_id: ArtifactId) -> Sequence[JobId]:
        """Return the jobs that have not ended and name the artifact in their graph."""


class ArtifactFiles(Protocol):
    """The contents of artifacts, in the storage that all JobManagers and runners share."""

    async def put(self, artifact_id: ArtifactId, name: str, content: bytes) -> None:
        """Store the content; it is durable on return. An existing file is kept."""

    async def remove(self, artifact_id: ArtifactId) -> None: ...
    async def found(self) -> Mapping[ArtifactId, FoundArtifact]: ...
    async def read_local(self, path: str) -> bytes:
        """Read a file on the server's machine. Raises `OSError`."""
