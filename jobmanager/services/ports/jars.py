"""Jars in the database."""

from collections.abc import Sequence
from typing import Protocol

from jobmanager.core.ids import ArtifactId
from jobmanager.core.jar import Jar


class Jars(Protocol):
    async def add(self, jar: Jar) -> None: ...
    async def get(self, jar_id: str) -> Jar:
        """Raises `JarNotFound`."""
        ...

    async def all(self, limit: int) -> Sequence[Jar]:
        """The newest first."""
        ...

    async def count(self) -> int: ...
    async def delete(self, jar_id: str) -> None: ...
    async def is_needed(self, artifact_id: ArtifactId) -> bool:
        """Whether a jar has this code."""
        ...
