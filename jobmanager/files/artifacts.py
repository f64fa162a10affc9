"""The contents of artifacts in storage: `<root>/artifacts/<id>/<name>`, written once.

JobManagers put them there and runners read them, so the storage has to be one that both see.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from jobmanager.core.artifact import is_id
from jobmanager.core.ids import ArtifactId
from jobmanager.files import durable

_DRAFT = ".draft-"


@dataclass(frozen=True, slots=True)
class ArtifactShelf:
    root: Path
    """That of all storage."""

    @property
    def directory(self) -> Path:
        return self.root / "artifacts"

    def put(self, artifact_id: ArtifactId, name: str, content: bytes) -> None:
        """Durable and whole under its id, or not there. What is there already stays."""
        home = self.directory / artifact_id
        if home.exists():
            return
        draft = self.directory / f"{_DRAFT}{uuid4().hex}"
        durable.make_directory(draft)
        try:
            (draft / name).write_bytes(content)
            durable.sync_all([draft / name])
            try:
                draft.rename(home)
            except OSError:
                if not home.exists():  # otherwise another one has just put it there
                    raise
            durable.sync(self.directory)
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def path_of(self, artifact_id: ArtifactId) -> Path:
        """Its file. Raises `FileNotFoundError`."""
        home = self.directory / artifact_id
        files = sorted(home.iterdir()) if home.is_dir() else []
        if not files:
            raise FileNotFoundError(f"artifact {artifact_id} is not in storage at {home}")
        return files[0]

    def remove(self, artifact_id: ArtifactId) -> None:
        shutil.rmtree(self.directory / artifact_id, ignore_errors=True)

    def found(self) -> Iterator[Path]:
        """The file of each artifact that is there."""
        if self.directory.is_dir():
            for home in sorted(self.directory.iterdir()):
                if is_id(home.name):
                    yield from home.iterdir()
