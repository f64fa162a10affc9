"""The paths of a job on this machine."""

import os
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from jobmanager.core.errors import PathNotAllowed
from jobmanager.core.ids import AttemptNumber, JobId
from jobmanager.core.paths.allowed_paths import PathRules
from jobmanager.core.snapshots.storage_uri import local_path
from jobmanager.files.artifacts import ArtifactShelf
from jobmanager.files.resolved_places import file_fault, path_rules
from jobmanager.protocol.messages import PathRoots
from taskrunner.sinks.directory import Guard
from taskrunner.snapshots.fence import Fence, read_epoch
from taskrunner.snapshots.layout import JobLayout


def rules_of(roots: PathRoots | None, data_root: str) -> PathRules | None:
    """The rules that a JobManager sent; None: any path is allowed."""
    if roots is None:
        return None
    return path_rules(roots.graphs, roots.snapshots, str(local_path(data_root)))


@dataclass(frozen=True, slots=True)
class JobPaths:
    """The paths of a job."""

    layout: JobLayout
    data_root: Path
    storage: Path | None = None
    """The storage that has the artifacts. None: the storage of the job's directory."""
    rules: PathRules | None = None
    """What the graph may name; None: anything."""

    @property
    def artifacts(self) -> ArtifactShelf:
        return ArtifactShelf(self.storage or self.layout.root)

    def resolve(self, path: str) -> Path:
        """Resolves a path in the graph. Raises `PathNotAllowed`: the JobManager checked the
        path, but links may have been made since.
        """
        if "://" in path or path.startswith("file:"):
            found = local_path(path)
        else:
            found = (self.data_root / path).resolve()
        if self.rules is not None and (fault := file_fault(self.rules.graphs, found)):
            raise PathNotAllowed(fault)
        return found

    def resolve_input(self, path: str) -> Path:
        """The same for what is read, with a look at the links that are there now: Spark follows
        them.
        """
        found = self.resolve(path)
        if self.rules is not None:
            for directory, inner, names in os.walk(found):
                for name in (*inner, *names):
                    one = Path(directory, name)
                    if one.is_symlink() and (fault := file_fault(self.rules.graphs, one)):
                        raise PathNotAllowed(fault)
        return found

    def guard_of(self, job: JobId) -> Guard:
        """Keeps out all attempts of another job, which has ended, permanently."""
        layout = self.layout.of_other(job)
        if not layout.directory.exists():
            return nullcontext  # that job ran on other storage
        fence = Fence(layout, AttemptNumber(read_epoch(layout) + 1))
        fence.raise_epoch()
        return fence.holding
