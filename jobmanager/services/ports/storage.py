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
    async def discard_checkpoint(self, job_id: JobId, number: CheckpointNumber) -> None: ...
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

    With `deletes` off, the same is looked at and said, and nothing is touched.
    """

    async def jobs(self) -> Set[str]:
        """The names of all jobs' directories: ids, in 32 hexadecimal digits."""

    async def checkpoints(self, job_id: JobId) -> Set[CheckpointNumber]:
        """The checkpoints of a job that have a directory."""

    async def job(
        self, job_id: JobId, facts: JobFacts, limits: GarbageLimits, *, deletes: bool
    ) -> Judgement: ...
    async def unknown_job(
        self, name: str, needed: Iterable[str], limits: GarbageLimits, *, deletes: bool
    ) -> Judgement:
        """`needed` are URIs of what is kept, wherever it is."""

    async def drafts(self) -> Mapping[str, int]:
        """Drafts of savepoints in our own directory for them: URI of the savepoint, and size."""

    async def remains(self, directory: str, *, is_complete: bool) -> Sequence[Remains]:
        """What is left of a savepoint. Of one that is complete: only its draft."""

    async def delete(self, remains: Remains) -> None: ...
