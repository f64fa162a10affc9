"""A savepoint under way, whole or not there at all.

<parent>/<name>/manifest.json     written last
<parent>/<name>/<region>/…        every file of the region's Spark checkpoint directory
<parent>/.<name>.draft/           on a file system, while it is written: then it is renamed

A store elsewhere has no rename: there a directory without a manifest is no savepoint.
"""

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Protocol

from jobmanager.core.ids import RegionId
from jobmanager.core.snapshots import manifest as manifests
from jobmanager.core.snapshots.manifest import Manifest, SnapshotFile
from jobmanager.core.snapshots.storage_uri import is_local, local_path
from jobmanager.files import durable
from jobmanager.files.local_files import LocalFiles
from jobmanager.files.open_storage import open_files
from jobmanager.files.snapshot_files import Kept, SnapshotFiles

Guard = Callable[[], AbstractContextManager[None]]


class _Place(Protocol):
    """Where a savepoint is written, and how it gets its name."""

    files: SnapshotFiles

    def publish(self, manifest: str, guard: Guard) -> None: ...
    def discard(self) -> None: ...


class SavepointDraft:
    """The files of one savepoint before it has its name. `discard` it when it fails."""

    def __init__(self, directory: str, after_step: Callable[[str], None] = lambda step: None):
        """Raises `FileExistsError`."""
        self._place: _Place = (
            _Renamed(local_path(directory), after_step)
            if is_local(directory)
            else _Uploaded(directory)
        )
        self._after_step = after_step
        """Told after each step that a crash may follow."""
        self._kept: dict[str, Kept] = {}

    def keep(self, region: RegionId, source: Path, path: str) -> SnapshotFile:
        """Keeps `source`, which is `path` in the region's Spark checkpoint directory."""
        location = f"{region}/{path}"
        if location not in self._kept:  # two stores may share a file
            self._kept[location] = self._place.files.keep(source, location)
        self._after_step("kept")
        kept = self._kept[location]
        return SnapshotFile(path, location, kept.bytes, kept.sha256)

    def finish(self, manifest: Manifest, guard: Guard) -> None:
        """Writes the manifest and gives the savepoint its name. Raises `Superseded`."""
        self._place.files.settle(manifest.files())
        self._place.publish(manifests.to_json(manifest), guard)

    def discard(self) -> None:
        """Leaves nothing behind, as far as it can."""
        self._place.discard()


class _Renamed:
    """On a file system: a draft next to the place it is for."""

    def __init__(self, directory: Path, after_step: Callable[[str], None]) -> None:
        if directory.exists():
            raise FileExistsError(f"{directory} exists already")
        self._directory = directory
        self._draft = directory.with_name(manifests.draft_name(directory.name))
        self._after_step = after_step
        self.files: SnapshotFiles = LocalFiles(self._draft)
        self.discard()  # of an attempt that died
        durable.make_directory(self._draft)

    def publish(self, manifest: str, guard: Guard) -> None:
        self.files.write(manifests.FILE_NAME, manifest)
        self._after_step("manifest")
        with guard():
            if self._directory.exists():  # a rename would replace an empty directory
                raise FileExistsError(f"{self._directory} exists already")
            self._draft.rename(self._directory)
        durable.sync(self._directory.parent)

    def discard(self) -> None:
        shutil.rmtree(self._draft, ignore_errors=True)


class _Uploaded:
    """Elsewhere: in its place from the beginning, and nothing until it has a manifest."""

    def __init__(self, directory: str) -> None:
        self.files = open_files(directory)
        there = self.files.found()
        if manifests.FILE_NAME in there:
            raise FileExistsError(f"{directory} exists already")
        self.files.delete(there)  # of an attempt that died

    def publish(self, manifest: str, guard: Guard) -> None:
        with guard():
            self.files.write(manifests.FILE_NAME, manifest)

    def discard(self) -> None:
        """Also a manifest, which the store may have, although it said no."""
        with suppress(OSError):  # the next try finds the rest, or gc does
            self.files.delete([manifests.FILE_NAME])
            self.files.remove()
