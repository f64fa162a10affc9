"""A savepoint under way: a draft next to the place it is for, renamed when it is whole.

<parent>/.<name>.draft/           while it is written
<parent>/<name>/manifest.json     written last
<parent>/<name>/<region>/…        every file of the region's Spark checkpoint directory
"""

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from jobmanager.core import manifest as manifests
from jobmanager.core.ids import RegionId
from jobmanager.core.manifest import Manifest, SnapshotFile
from taskrunner.snapshots import durable


class SavepointDraft:
    """The files of one savepoint before it has its name. `discard` it when it fails."""

    def __init__(self, directory: Path, after_step: Callable[[str], None] = lambda step: None):
        if directory.exists():
            raise FileExistsError(f"{directory} exists already")
        self._directory = directory
        self._draft = directory.with_name(f".{directory.name}.draft")
        self._after_step = after_step
        """Told after each step that a crash may follow."""
        shutil.rmtree(self._draft, ignore_errors=True)  # of an attempt that died
        durable.make_directory(self._draft)

    def keep(self, region: RegionId, source: Path, path: str) -> SnapshotFile:
        """Keeps `source`, which is `path` in the region's Spark checkpoint directory."""
        location = f"{region}/{path}"
        target = self._draft / location
        durable.make_directory(target.parent)
        if not target.exists():  # two stores may share a file
            durable.link_or_copy(source, target)
            durable.sync(target)
        self._after_step("kept")
        return SnapshotFile(path, location, target.stat().st_size, durable.sha256(target))

    def finish(self, manifest: Manifest, guard: Callable[[], AbstractContextManager[None]]) -> None:
        """Writes the manifest and gives the savepoint its name. Raises `Superseded`."""
        parents = {(self._draft / file.location).parent for file in manifest.files()}
        for parent in parents:
            durable.sync(parent)
        durable.write(self._draft / manifests.FILE_NAME, manifests.to_json(manifest))
        self._after_step("manifest")
        with guard():
            if self._directory.exists():  # a rename would replace an empty directory
                raise FileExistsError(f"{self._directory} exists already")
            self._draft.rename(self._directory)
        durable.sync(self._directory.parent)

    def discard(self) -> None:
        """Leaves nothing behind. What has its name already stays."""
        shutil.rmtree(self._draft, ignore_errors=True)
