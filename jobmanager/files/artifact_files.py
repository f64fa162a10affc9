"""The contents of artifacts, for the JobManager's use cases."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import IO

from jobmanager.core.artifact import MIB, FoundArtifact, ReceivedArtifact, check_name, read
from jobmanager.core.errors import ArtifactTooLarge, StorageUnavailable
from jobmanager.core.graph.module_names import ModuleNames
from jobmanager.core.ids import ArtifactId
from jobmanager.files.artifacts import ArtifactShelf
from jobmanager.files.zip_entries import unpacked


class SharedArtifactFiles:
    def __init__(self, root: Path) -> None:
        self._shelf = ArtifactShelf(root)

    async def receive(self, name: str, chunks: AsyncIterator[bytes], most: int) -> ReceivedArtifact:
        check_name(name)  # it becomes the name of a file
        with _told_as_storage(name):
            draft = await asyncio.to_thread(self._shelf.begin, name)
        writing = _Writing(name, draft, most)
        try:
            with _told_as_storage(name):
                async for chunk in chunks:
                    await asyncio.to_thread(writing.add, chunk)
                return await asyncio.to_thread(writing.finish)
        except BaseException:
            writing.close()
            self._shelf.discard(draft)
            raise

    async def receive_local(self, path: str, most: int) -> ReceivedArtifact:
        """Raises `InvalidArtifact`, `ArtifactTooLarge`, `OSError`."""
        source = await asyncio.to_thread(Path(path).open, "rb")
        try:
            return await self.receive(Path(path).name, _pieces_of(source), most)
        finally:
            source.close()

    async def read_modules(
        self, name: str, received: ReceivedArtifact
    ) -> Mapping[str, ModuleNames]:
        def look() -> Mapping[str, ModuleNames]:
            with Path(received.draft).open("rb") as file:
                return read(name, file, unpacked)

        return await asyncio.to_thread(look)

    async def keep(self, received: ReceivedArtifact, name: str) -> None:
        with _told_as_storage(name):
            await asyncio.to_thread(self._shelf.keep, received.id, Path(received.draft))

    async def discard(self, received: ReceivedArtifact) -> None:
        await asyncio.to_thread(self._shelf.discard, Path(received.draft))

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


class _Writing:
    """A file that comes in piece by piece."""

    def __init__(self, name: str, draft: Path, most: int) -> None:
        self._name = name
        self._draft = draft
        self._most = most
        self._file = draft.open("wb")
        self._hash = sha256()
        self._bytes = 0

    def add(self, chunk: bytes) -> None:
        self._bytes += len(chunk)
        if self._bytes > self._most:
            raise ArtifactTooLarge(
                f"{self._name} is larger than {self._most} bytes: keep data in files that the job "
                "reads, or let the server take more (HEADGATE_MOST_ARTIFACT_BYTES)"
            )
        self._hash.update(chunk)
        self._file.write(chunk)

    def finish(self) -> ReceivedArtifact:
        self._file.close()
        return ReceivedArtifact(ArtifactId(self._hash.hexdigest()), self._bytes, str(self._draft))

    def close(self) -> None:
        self._file.close()


async def _pieces_of(source: IO[bytes]) -> AsyncIterator[bytes]:
    while chunk := await asyncio.to_thread(source.read, MIB):
        yield chunk


@contextmanager
def _told_as_storage(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageUnavailable(f"{name} cannot be stored: {error}") from error
