"""The paths of a job on this machine."""

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from jobmanager.core.ids import AttemptNumber, JobId
from jobmanager.core.snapshots.storage_uri import local_path
from jobmanager.files.artifacts import ArtifactShelf
from taskrunner.sinks.directory import Guard
from taskrunner.snapshots.fence import Fence, read_epoch
from taskrunner.snapshots.layout import JobLayout


@dataclass(frozen=True, slots=True)
class JobPaths:
    """The paths of a job."""

    layout: JobLayout
    data_root: Path
    storage: Path | None = None
    """The storage that has the artifacts. None: the storage of the job's directory."""

    @property
    def artifacts(self) -> ArtifactShelf:
        return ArtifactShelf(self.storage or self.layout.root)

    def resolve(self, path: str) -> Path:
        """Resolves a path in the graph."""
        if "://" in path or path.startswith("file:"):
            return local_path(path)
        return (self.data_root / path).resolve()

    def guard_of(self, job: JobId) -> Guard:
        """Keeps out all attempts of another job, which has ended, permanently."""
        layout = self.layout.of_other(job)
        if not layout.directory.exists():
            return nullcontext  # that job ran on other storage
        fence = Fence(layout, AttemptNumber(read_epoch(layout) + 1))
        fence.raise_epoch()
        return fence.holding
