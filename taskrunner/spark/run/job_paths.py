"""Where a job's things are, on this machine."""

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
    """Where a job's things are."""

    layout: JobLayout
    data_root: Path
    storage: Path | None = None
    """Where artifacts are. None: where the job's directory is."""

    @property
    def artifacts(self) -> ArtifactShelf:
        return ArtifactShelf(self.storage or self.layout.root)

    def resolve(self, path: str) -> Path:
        """The place that a path in the graph means."""
        if "://" in path or path.startswith("file:"):
            return local_path(path)
        return (self.data_root / path).resolve()

    def guard_of(self, job: JobId) -> Guard:
        """Keeps all attempts of another job, which has ended, out for good."""
        layout = self.layout.of_other(job)
        if not layout.directory.exists():
            return nullcontext  # it ran elsewhere
        fence = Fence(layout, AttemptNumber(read_epoch(layout) + 1))
        fence.raise_epoch()
        return fence.holding
