"""A job's directory, as its runner uses it: the names are those of `core.snapshots.layout`.

Spark uses the directory by path, so it must be on a file system; the pool and the checkpoints are
in the same directory, or in storage of any kind.
"""

from dataclasses import dataclass
from pathlib import Path

from jobmanager.core.ids import AttemptNumber, JobId, RegionId, VertexId
from jobmanager.core.snapshots import layout as storage_layout
from jobmanager.core.snapshots.storage_uri import below, local_path
from jobmanager.files.local_storage import LocalStorage
from jobmanager.files.open_storage import open_storage
from jobmanager.files.storage_port import Storage


@dataclass(frozen=True, slots=True)
class JobLayout:
    directory: Path
    elsewhere: str | None = None
    """The URI of the pool and the checkpoints. None: they are in the directory."""

    @property
    def work(self) -> LocalStorage:
        """The directory itself."""
        return LocalStorage(self.directory)

    @property
    def root(self) -> Path:
        """The root directory of the storage."""
        return self.directory.parents[storage_layout.JOB_DEPTH - 1]

    def of_other(self, job: JobId) -> "JobLayout":
        """The directory of another job in the same storage."""
        return JobLayout(self.root / storage_layout.job_directory(job))

    @property
    def snapshots(self) -> Storage:
        """The pool and the checkpoints."""
        return open_storage(self.elsewhere or self.directory.as_uri())

    def result(self, attempt: AttemptNumber) -> Path:
        return self.directory / storage_layout.result(attempt)

    def spark_checkpoint_dir(self, attempt: AttemptNumber, region: RegionId) -> Path:
        return self.directory / storage_layout.spark_checkpoint_dir(attempt, region)

    def clone_draft(self, attempt: AttemptNumber, region: RegionId) -> Path:
        return self.directory / storage_layout.clone_draft(attempt, region)

    def drain(self, attempt: AttemptNumber, region: RegionId) -> Path:
        return self.directory / storage_layout.drain(attempt, region)

    def rounds(self, attempt: AttemptNumber) -> Path:
        """The directory for the rounds that loops of a batch job write to files."""
        return self.directory / storage_layout.rounds(attempt)

    def transactions(self, sink: VertexId) -> Path:
        """The directory of a sink that stages rows and publishes them by transactions."""
        return self.directory / storage_layout.transactions(sink)

    def schemas(self, vertex: VertexId) -> Path:
        """The file of the schemas that a source asked a registry for while it ran."""
        return self.directory / storage_layout.schemas(vertex)

    def rows(self, vertex: VertexId) -> Path:
        """The directory of a `table` source's rows."""
        return self.directory / storage_layout.rows_directory(vertex)


def layout_of(storage: str, job: JobId, checkpoints: str | None = None) -> JobLayout:
    """The directory of `job` below the storage root, a file: URI, and below `checkpoints`."""
    home = storage_layout.job_directory(job)
    return JobLayout(local_path(storage) / home, below(checkpoints, home) if checkpoints else None)
