"""Temporary copies of checkpoints and savepoints, for Spark to read.

A copy has the Spark checkpoint directory of each region, made of hard links if it is on the
same file system. The original is only read. A copy of a checkpoint is made under the lock of
its pool, so that retention deletes the checkpoint either before the copy begins or after it is
complete; then the copy's own links keep the files.
"""

import shutil
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

from jobmanager.core.ids import RegionId
from jobmanager.core.snapshots import layout as storage_layout
from jobmanager.core.snapshots import manifest as manifests
from jobmanager.core.snapshots.manifest import Manifest
from jobmanager.core.snapshots.storage_uri import is_local
from jobmanager.files import locks
from jobmanager.files.open_storage import open_storage
from jobmanager.files.storage_port import DamagedFile, LockUnavailable, MissingFile, Storage

_MOST_COPIES = 3
_LOCK = "lock"


class SnapshotGone(Exception):
    """The checkpoint or savepoint does not exist any more, or some of its files do not."""


class UnreadableSnapshot(Exception):
    """A file differs from the manifest, or this version cannot read the manifest."""


@dataclass(frozen=True, slots=True)
class Copy:
    manifest: Manifest
    directory: Path

    def region(self, region: RegionId) -> Path:
        """The Spark checkpoint directory of a region that has committed a batch."""
        return self.directory / region


class Copies:
    """Keeps the last copies that were used, so that they can be used again."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._kept: OrderedDict[tuple[str, str], Copy] = OrderedDict()

    def of(self, root: str, location: str) -> Copy:
        """A copy to read from. Raises `SnapshotGone` or `UnreadableSnapshot`."""
        wanted = (root, location)
        if wanted not in self._kept:
            target = self._home / uuid4().hex
            self._kept[wanted] = make_copy(root, location, target)
            while len(self._kept) > _MOST_COPIES:
                _, oldest = self._kept.popitem(last=False)
                shutil.rmtree(oldest.directory, ignore_errors=True)
        self._kept.move_to_end(wanted)
        return self._kept[wanted]


def make_copy(root: str, location: str, target: Path) -> Copy:
    """Copies every region of the snapshot below `target`, which is made. `root` is a URI."""
    files = open_storage(root)
    with _retention_kept_out(files, root, location):
        manifest = _read(files, location)
        try:
            for region, known in manifest.regions.items():
                for file in known.files:
                    files.fetch(file, target / region / file.path)
        except BaseException as error:
            shutil.rmtree(target, ignore_errors=True)
            match error:
                case MissingFile():
                    raise SnapshotGone(f"{files.uri}: {error}") from error
                case DamagedFile():
                    raise UnreadableSnapshot(f"{files.uri}: {error}") from error
                case _:
                    raise
    return Copy(manifest, target)


@contextmanager
def scratch(parent: Path) -> Iterator[Path]:
    """A directory for the copies of this process. Directories of dead processes are deleted."""
    with locks.held(parent / _LOCK):
        for leftover in parent.glob("*/"):
            if _is_abandoned(leftover):
                shutil.rmtree(leftover, ignore_errors=True)
        home = parent / uuid4().hex
        mine = ExitStack()
        mine.enter_context(locks.held(home / _LOCK))
    with mine:
        try:
            yield home
        finally:
            shutil.rmtree(home, ignore_errors=True)


def _is_abandoned(home: Path) -> bool:
    """Whether no process holds its lock. Called under the lock of the parent directory."""
    try:
        with locks.held(home / _LOCK, timedelta()):
            return True
    except LockUnavailable:
        return False


def _retention_kept_out(files: Storage, root: str, location: str) -> AbstractContextManager[None]:
    """Holds the pool lock of a checkpoint; a savepoint needs none, retention never deletes it. The
    lock is in the job's working directory and does not protect a remote store: files that
    retention deletes there meanwhile are reported as missing.
    """
    is_savepoint = location == storage_layout.MANIFEST
    if is_savepoint or not is_local(root) or not files.list_names():
        return nullcontext()
    return files.lock(storage_layout.POOL_LOCK)


def _read(files: Storage, location: str) -> Manifest:
    where = f"{files.uri}/{location}"
    try:
        return manifests.from_json(files.read(location).decode())
    except FileNotFoundError:
        raise SnapshotGone(f"{where} is not there") from None
    except (UnicodeError, manifests.InvalidManifest) as error:
        raise UnreadableSnapshot(f"{where}: {error}") from error
