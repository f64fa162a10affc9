"""Snapshots as the JobManager sees them: working directories and locks on a local (or
mounted) file system, checkpoints and savepoints there or anywhere fsspec reaches.

The runner writes; the JobManager verifies and deletes. Files are deleted with `pool.lock` held. The
runner holds the lock when all files are uploaded: it checks that all are still there and writes the
manifest. So a manifest never names a file that was deleted.
"""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jobmanager.core.errors import StorageUnavailable, UnusableRestorePoint
from jobmanager.core.ids import AttemptNumber, CheckpointNumber, JobId
from jobmanager.core.snapshots import layout
from jobmanager.core.snapshots import manifest as manifests
from jobmanager.core.snapshots.records import Verification
from jobmanager.core.snapshots.storage_uri import UnsupportedStorage, below
from jobmanager.files.artifact_files import SharedArtifactFiles
from jobmanager.files.discarded import note_discarded
from jobmanager.files.local_storage import LocalStorage
from jobmanager.files.open_storage import open_storage
from jobmanager.files.own_threads import in_own_thread
from jobmanager.files.pool_lock import AT_ONCE, pool_locked
from jobmanager.files.storage_port import Storage, StoreFailed, damage
from jobmanager.files.sweep import StorageSweep, pooled_by


class FileSnapshotStorage:
    def __init__(self, root: Path, checkpoints: str | None = None) -> None:
        self._root = root
        self._work = LocalStorage(root)
        self._checkpoints = checkpoints or root.as_uri()

    @property
    def sweep(self) -> StorageSweep:
        return StorageSweep(self._root, self._checkpoints)

    @property
    def artifacts(self) -> SharedArtifactFiles:
        return SharedArtifactFiles(self._root)

    async def verify(self, job_id: JobId, manifest: str) -> Verification:
        return await asyncio.to_thread(lambda: _verify(self._snapshots(job_id), manifest))

    async def verify_at(self, root: str, manifest: str) -> Verification:
        # Opened in the thread as well: loading a driver takes seconds.
        return await asyncio.to_thread(lambda: _verify(_open(root), manifest))

    async def read_manifest(self, root: str, manifest: str) -> manifests.Manifest:
        """Read a manifest. Raises `UnusableRestorePoint` if it does not exist or cannot be read."""
        try:
            text = await asyncio.to_thread(lambda: open_storage(root).read(manifest))
            return manifests.from_json(text.decode())
        except StoreFailed as error:
            raise StorageUnavailable(str(error)) from error
        except (OSError, ValueError) as error:  # InvalidManifest and UnsupportedStorage too
            raise UnusableRestorePoint(f"{root}/{manifest} cannot be read: {error}") from error

    async def dispose_savepoint(self, directory: str) -> None:
        await in_own_thread(lambda: _dispose(_open(directory)))

    async def discard_checkpoint(
        self, job_id: JobId, number: CheckpointNumber, *, was_completed: bool = False
    ) -> None:
        await in_own_thread(lambda: self._discard_checkpoint(job_id, number, was_completed))

    async def discard_attempts(self, job_id: JobId, before: AttemptNumber) -> None:
        await in_own_thread(lambda: _discard_attempts(self._job(job_id), before))

    async def last_word(self, job_id: JobId, attempt: AttemptNumber) -> Mapping[str, Any] | None:
        return await asyncio.to_thread(
            lambda: _read_json(self._job(job_id), layout.result(attempt))
        )

    def _job(self, job_id: JobId) -> LocalStorage:
        """Return the job's working directory."""
        return self._work.inside(layout.job_directory(job_id))

    def _snapshots(self, job_id: JobId) -> Storage:
        return open_storage(below(self._checkpoints, layout.job_directory(job_id)))

    def _discard_checkpoint(
        self, job_id: JobId, number: CheckpointNumber, was_completed: bool
    ) -> None:
        """Delete the manifest, then the checkpoint's own files, then pool files that nothing
        names. Raises `StorageBusy` if another process holds the pool lock.
        """
        files, manifest = self._snapshots(job_id), layout.checkpoint_manifest(number)
        work = self._job(job_id)
        with pool_locked(work, AT_ONCE):
            own = layout.checkpoint_directory(number)
            if not was_completed and layout.MANIFEST not in files.list_names(own):
                note_discarded(work, number)
            pooled = pooled_by(files, manifest)
            files.delete([manifest])
            files.delete_directory(own)
            still_named: set[str] = set()
            for other in filter(
                layout.is_checkpoint_manifest, files.list_files(layout.CHECKPOINTS)
            ):
                still_named |= pooled_by(files, other)
            files.delete(pooled - still_named)


def _open(root: str) -> Storage:
    try:
        return open_storage(root)
    except UnsupportedStorage as error:  # it was not, when it was written
        raise StorageUnavailable(str(error)) from error


def _discard_attempts(work: Storage, before: AttemptNumber) -> None:
    for attempt in layout.attempt_numbers(work.list_names(layout.ATTEMPTS)):
        if attempt < before:
            work.delete_directory(layout.attempt(attempt))


def _verify(files: Storage, location: str) -> Verification:
    try:
        manifest = manifests.from_json(files.read(location).decode())
        named = list(manifest.files())
        found = {file.location: damage(files, file) for file in named}
    except FileNotFoundError:
        return Verification(0, 0, [f"{location} is missing"])
    except ValueError as error:
        return Verification(0, 0, [f"{location}: {error}"])
    except OSError as error:
        raise StorageUnavailable(f"{location} cannot be read: {error}") from error
    faults = [f"{name} {fault}" for name, fault in found.items() if fault]
    return Verification(len(named), sum(file.bytes for file in named), faults)


def _dispose(files: Storage) -> None:
    """Delete the manifest first: without a manifest, the rest is no savepoint any more."""
    if layout.MANIFEST in files.list_files():
        files.delete([layout.MANIFEST])
        files.delete_directory()


def _read_json(files: Storage, location: str) -> Mapping[str, Any] | None:
    try:
        document: Mapping[str, Any] = json.loads(files.read(location))
    except (FileNotFoundError, ValueError):
        return None
    return document
