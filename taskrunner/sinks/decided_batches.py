"""The records of a sink's decided batches, and the staged files that the records name.

Only reads: it needs neither Spark nor the topic to which the batches will go.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from jobmanager.core.ids import VertexId
from taskrunner.core.staged_rows import OutputFileChanged

_RECORD = re.compile(r"(\d+)\.json")
NOTE = "published"
"""The file with the last marker that was written."""


@dataclass(frozen=True, slots=True)
class DecidedBatch:
    """The record of a batch: its rows are staged, and it is not computed again."""

    batch: int
    rows: int
    attempt: int
    files: tuple[tuple[str, int], ...]
    """Name below the staging directory, and bytes."""


@dataclass(frozen=True, slots=True)
class DecidedBatches:
    """The records in the directory of one sink."""

    directory: Path
    sink: VertexId

    @property
    def staging(self) -> Path:
        return self.directory / "staging"

    def path(self, batch: int) -> Path:
        return self.directory / f"{batch}.json"

    def numbers(self) -> list[int]:
        """The batches that have a record."""
        if not self.directory.exists():
            return []
        matches = [_RECORD.fullmatch(path.name) for path in self.directory.iterdir()]
        return [int(match[1]) for match in matches if match]

    def read(self, batch: int) -> DecidedBatch:
        """Raises `OutputFileChanged` if the record is damaged."""
        path = self.path(batch)
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            files = tuple((str(name), int(size)) for name, size in document.pop("files"))
            return DecidedBatch(files=files, **document)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise OutputFileChanged(
                f"sink {self.sink}, batch {batch}: the record {path} is damaged ({error}). "
                "Start the job from a checkpoint before this batch"
            ) from None

    def files_of(self, batch: int) -> list[Path]:
        """The staged files of a batch, each with the size in the record. Raises
        `OutputFileChanged`.
        """
        paths = []
        for name, size in self.read(batch).files:
            path = self.staging / name
            found = path.stat().st_size if path.exists() else None
            if found != size:
                raise OutputFileChanged(
                    f"sink {self.sink}, batch {batch}: the record names {path} with {size} "
                    f"bytes, and the file {'is gone' if found is None else f'has {found}'}. The "
                    "batch is not published: bring the file back (is the directory mounted?), or "
                    "start the job from a checkpoint before this batch"
                )
            paths.append(path)
        return paths

    def noted(self) -> int | None:
        """The last marker that the directory tells of: the batches before it are published."""
        try:
            return int((self.directory / NOTE).read_text())
        except FileNotFoundError:
            return None

    def lost(self) -> dict[int, str]:
        """Batches that are decided and cannot be published, with the reason: they have to be run
        again. The record of a published batch may be left over from a crash, and is not needed.
        """
        published = self.noted() or 0
        lost = {}
        for batch in sorted(one for one in self.numbers() if one >= published):
            try:
                self.files_of(batch)
            except OutputFileChanged as error:
                lost[batch] = str(error)
        return lost
