"""Writes a savepoint atomically: it is either complete or does not exist.

If the storage can rename, the savepoint is written as a draft next to its place and gets its name
at the end. A remote store has no rename: there a directory without a manifest is no savepoint.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Protocol

from jobmanager.core.ids import RegionId
from jobmanager.core.snapshots import layout as storage_layout
from jobmanager.core.snapshots import manifest as manifests
from jobmanager.core.snapshots.manifest import Manifest, SnapshotFile
from jobmanager.core.snapshots.storage_uri import parent_and_name
from jobmanager.files.open_storage import open_storage
from jobmanager.files.storage_port import Digest, Storage

Guard = Callable[[], AbstractContextManager[None]]


class _Place(Protocol):
    """The place where a savepoint is written, and how it gets its name."""

    files: Storage

    def publish(self, manifest: str, guard: Guard) -> None: ...
    def discard(self) -> None: ...


class SavepointDraft:
    """The files of one savepoint before it has its name. Call `discard` if it fails."""

    def __init__(self, directory: str, after_step: Callable[[str], None] = lambda step: None):
        """Raises `FileExistsError`."""
        parent, name = parent_and_name(directory)
        files = open_storage(parent)
        self._place: _Place = (
            _Renamed(files, name, after_step) if files.renames else _Uploaded(files.inside(name))
        )
        self._after_step = after_step
        """Called after each step after which a crash may happen (tests use it)."""
        self._kept: dict[str, Digest] = {}

    def keep(self, region: RegionId, source: Path, path: str) -> SnapshotFile:
        """Keeps `source`, which is `path` in the region's Spark checkpoint directory."""
        location = storage_layout.savepoint_file(region, path)
        if location not in self._kept:  # two state stores may share a file
            self._kept[location] = self._place.files.keep(source, location)
        self._after_step("kept")
        kept = self._kept[location]
        return SnapshotFile(path, location, kept.bytes, kept.sha256)

    def finish(self, manifest: Manifest, guard: Guard) -> None:
        """Writes the manifest and gives the savepoint its name. Raises `Superseded`."""
        self._place.files.make_durable(manifest.files())
        self._place.publish(manifests.to_json(manifest), guard)

    def discard(self) -> None:
        """Deletes everything that was written, as far as possible."""
        self._place.discard()


class _Renamed:
    """A draft next to the place it is for."""

    def __init__(self, parent: Storage, name: str, after_step: Callable[[str], None]) -> None:
        if name in parent.list_names():
            raise FileExistsError(f"{parent.uri}/{name} exists already")
        self._parent = parent
        self._name = name
        self._draft = storage_layout.draft_name(name)
        self._after_step = after_step
        self.files: Storage = parent.inside(self._draft)
        self.discard()  # of an attempt that died

    def publish(self, manifest: str, guard: Guard) -> None:
        self.files.write(storage_layout.MANIFEST, manifest)
        self._after_step("manifest")
        with guard():
            self._parent.rename(self._draft, self._name)

    def discard(self) -> None:
        self._parent.delete_directory(self._draft)


class _Uploaded:
    """A directory in its final place, which is no savepoint until it has a manifest."""

    def __init__(self, files: Storage) -> None:
        self.files = files
        there = files.list_files()
        if storage_layout.MANIFEST in there:
            raise FileExistsError(f"{files.uri} exists already")
        files.delete(there)  # of an attempt that died

    def publish(self, manifest: str, guard: Guard) -> None:
        with guard():
            self.files.write(storage_layout.MANIFEST, manifest)

    def discard(self) -> None:
        """Deletes the files, and the manifest, which may exist although the store failed."""
        with suppress(OSError):  # the next try or gc deletes the rest
            self.files.delete([storage_layout.MANIFEST])
            self.files.delete_directory()
