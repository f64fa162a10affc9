"""Artifacts: their rows in the database, and their contents in storage."""

from collections.abc import AsyncIterator, Mapping, Sequence, Set
from datetime import datetime
from typing import Protocol

from jobmanager.core.artifact import Artifact, FoundArtifact, ReceivedArtifact
from jobmanager.core.graph.module_names import ModuleNames
from jobmanager.core.ids import (
    ArtifactId,
    JobId,
)

Modules = Mapping[str, ModuleNames]
"""Each importable module of an artifact, by its dotted name."""


class Artifacts(Protocol):
    async def totals(self) -> tuple[int, int]:
        """How many there are, and their bytes."""

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

    async def receive(self, name: str, chunks: AsyncIterator[bytes], most: int) -> ReceivedArtifact:
        """Writes what comes to disk, piece by piece. Raises `ArtifactTooLarge` after `most`
        bytes; then nothing is left of it.
        """

    async def receive_local(self, path: str, most: int) -> ReceivedArtifact:
        """The same of a file on the server's machine. Raises `OSError`, too."""

    async def read_modules(self, name: str, received: ReceivedArtifact) -> Modules:
        """Raises `InvalidArtifact` where jobs could not use it."""

    async def keep(self, received: ReceivedArtifact, name: str) -> None:
        """Durable when it returns. What is there already stays."""

    async def discard(self, received: ReceivedArtifact) -> None:
        """Deletes what was received; what was kept stays."""

    async def remove(self, artifact_id: ArtifactId) -> None: ...
    async def found(self) -> Mapping[ArtifactId, FoundArtifact]: ...
