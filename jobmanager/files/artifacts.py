"""The contents of artifacts in storage, each written once.

JobManagers write them, and runners read them by path: Python imports them and Spark ships them. So
they are on a file system that both programs see.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from jobmanager.core.artifact import is_id
from jobmanager.core.ids import ArtifactId
from jobmanager.core.snapshots import layout
from jobmanager.files.local_storage import LocalStorage


@dataclass(frozen=True, slots=True)
class ArtifactShelf:
    root: Path
    """That of all storage."""

    @property
    def _files(self) -> LocalStorage:
        return LocalStorage(self.root)

    def put(self, artifact_id: ArtifactId, name: str, content: bytes) -> None:
        """Store an artifact under its id, durably, or not at all. An existing file is kept."""
        home = layout.artifact_directory(artifact_id)
        if self._files.list_names(home):
            return
        draft = layout.artifact_draft(uuid4().hex)
        try:
            self._files.inside(draft).write(name, content)
            self._files.rename(draft, home)
        except FileExistsError:
            pass  # another process has just stored the artifact
        finally:
            self._files.delete_directory(draft)

    def path_of(self, artifact_id: ArtifactId) -> Path:
        """Return the artifact's file. Raises `FileNotFoundError`."""
        home = self._files.inside(layout.artifact_directory(artifact_id))
        names = sorted(home.list_names())
        if not names:
            raise FileNotFoundError(f"artifact {artifact_id} is not in storage at {home.path('')}")
        return home.path(names[0])

    def remove(self, artifact_id: ArtifactId) -> None:
        self._files.delete_directory(layout.artifact_directory(artifact_id))

    def found(self) -> Iterator[Path]:
        """List the files of all artifacts in storage."""
        for name in sorted(self._files.list_names(layout.ARTIFACTS)):
            if is_id(name):
                home = self._files.inside(layout.artifact_directory(ArtifactId(name)))
                yield from (home.path(file) for file in sorted(home.list_names()))
