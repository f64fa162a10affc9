"""Where things are in a job's directory.

<root>/jobs/<job>/
    epoch, epoch.lock                 the attempt that may write
    lineage.json                      the jobs it goes back to, if it was started from another's
    outputs.json                      the directories it ever wrote to
    attempts/<n>/<region>/            Spark checkpoint directory of that attempt
    attempts/<n>/.<region>.clone/     the same before it is whole
    attempts/<n>/<region>.drain       the batch that a stop began to drain after
    attempts/<n>/.rounds/<loop>/      of a batch job: what a round of a loop gave
    attempts/<n>/result.json          how the attempt ended
    inputs/<vertex>/rows.json         the rows of a `table` source, the same for all attempts
    pool.lock                         held around any change of the pool or the manifests

and in the same directory, or below a root of their own anywhere fsspec reaches:

<root>/jobs/<job>/
    pool/<region>/…                   immutable files that checkpoints share
    checkpoints/<n>/manifest.json     written last
    checkpoints/<n>/<region>/…        on a file system: the small files of that checkpoint
"""

from dataclasses import dataclass
from pathlib import Path

from jobmanager.core.ids import AttemptNumber, JobId, RegionId, VertexId
from jobmanager.core.snapshots.storage_uri import below, local_path
from jobmanager.files.open_storage import open_files
from jobmanager.files.snapshot_files import SnapshotFiles


@dataclass(frozen=True, slots=True)
class JobLayout:
    directory: Path
    elsewhere: str | None = None
    """Where the pool and the checkpoints are, a URI. None: in the directory."""

    @property
    def snapshots(self) -> SnapshotFiles:
        """The pool and the checkpoints."""
        return open_files(self.elsewhere or self.directory.as_uri())

    @property
    def epoch(self) -> Path:
        return self.directory / "epoch"

    @property
    def epoch_lock(self) -> Path:
        return self.directory / "epoch.lock"

    @property
    def pool_lock(self) -> Path:
        return self.directory / "pool.lock"

    @property
    def lineage(self) -> Path:
        return self.directory / "lineage.json"

    @property
    def outputs(self) -> Path:
        return self.directory / "outputs.json"

    @property
    def attempts(self) -> Path:
        return self.directory / "attempts"

    def attempt(self, attempt: AttemptNumber) -> Path:
        return self.attempts / str(attempt)

    def result(self, attempt: AttemptNumber) -> Path:
        return self.attempt(attempt) / "result.json"

    def spark_checkpoint_dir(self, attempt: AttemptNumber, region: RegionId) -> Path:
        return self.attempt(attempt) / region

    def drain(self, attempt: AttemptNumber, region: RegionId) -> Path:
        return self.attempt(attempt) / f"{region}.drain"

    def rounds(self, attempt: AttemptNumber) -> Path:
        """The directory of what loops of a batch job write down on the way."""
        return self.attempt(attempt) / ".rounds"

    def rows(self, vertex: VertexId) -> Path:
        """The directory of a `table` source's rows."""
        return self.directory / "inputs" / vertex


def layout_of(storage: str, job: JobId, checkpoints: str | None = None) -> JobLayout:
    """The directory of `job` below the storage root, a file: URI, and below `checkpoints`."""
    elsewhere = below(checkpoints, "jobs", job.hex) if checkpoints else None
    return JobLayout(local_path(storage) / "jobs" / job.hex, elsewhere)
