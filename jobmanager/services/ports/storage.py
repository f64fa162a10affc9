"""The files of checkpoints and savepoints, as the JobManager sees them."""

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, Protocol

from jobmanager.core.ids import (
    AttemptNumber,
    CheckpointNumber,
    JobId,
)
from jobmanager.core.snapshots.garbage import GarbageLimits, JobFacts, Judgement
from jobmanager.core.snapshots.manifest import Manifest
from jobmanager.core.snapshots.records import Remains, Verification
from jobmanager.services.ports.artifacts import ArtifactFiles


class SnapshotStorage(Protocol):
    """The files of checkpoints, as the JobManager sees them."""

    async def verify(self, job_id: JobId, manifest: str) -> Verification: ...
    async def verify_at(self, root: str, manifest: str) -> Verification: ...
    async def read_manifest(self, root: str, manifest: str) -> Manifest: ...
    async def dispose_savepoint(self, directory: str) -> None: ...
    async def discard_checkpoint(
        self, job_id: JobId, number: CheckpointNumber, *, was_completed: bool = False
    ) -> None: ...
    async def discard_attempts(self, job_id: JobId, before: AttemptNumber) -> None: ...
    async def last_word(
        self, job_id: JobId, attempt: AttemptNumber
    ) -> Mapping[str, Any] | None: ...

    @property
    def sweep(self) -> "Sweep": ...
    @property
    def artifacts(self) -> "ArtifactFiles": ...


class Sweep(Protocol):
    """Storage as the garbage collector sees it. Paths in answers are URIs.

    With `deletes` off, the answers are the same, and nothing is deleted.
    """

    async def jobs(self) -> Set[str]:
        """Return the names of all jobs' directories: ids, in 32 hexadecimal digits."""

    async def checkpoints(self, job_id: JobId) -> Set[CheckpointNumber]:
        """Return the numbers of a job's checkpoints that have a directory."""

    async def job(
        self, job_id: JobId, facts: JobFacts, limits: GarbageLimits, *, deletes: bool
    ) -> Judgement: ...
    async def unknown_job(
        self, name: str, needed: Iterable[str], limits: GarbageLimits, *, deletes: bool
    ) -> Judgement:
        """Sweep a directory of a job that is not in the database. `needed` are URIs of everything
        that is kept.
        """

    async def drafts(self) -> Mapping[str, int]:
        """Return drafts in the storage's own directory of savepoints: URI of the savepoint, and
        size.
        """

    async def remains(self, directory: str, *, is_complete: bool) -> Sequence[Remains]:
        """Return what is left of a savepoint; of a completed savepoint, only its draft."""

    async def delete(self, remains: Remains) -> None: ...
