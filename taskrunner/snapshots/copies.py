"""Throw-away copies of checkpoints and savepoints, to be looked into by Spark.

A copy has the Spark checkpoint directory of each region, made of hard links where it is on
the same file system. The original is only read. A copy of a checkpoint is made under the
lock of its pool, so that retention deletes either all of it before, or nothing until the
copy is whole; after that the copy's own links keep it.
"""

import fcntl
import os
import shutil
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from jobmanager.core.ids import RegionId
from jobmanager.core.snapshots import layout as storage_layout
from jobmanager.core.snapshots import manifest as manifests
from jobmanager.core.snapshots.manifest import Manifest
from jobmanager.core.snapshots.storage_uri import is_local, local_path
from jobmanager.files import locks
from jobmanager.files.local_storage import LocalStorage
from jobmanager.files.open_storage import open_storage
from jobmanager.files.storage_port import DamagedFile, Storage
from taskrunner.snapshots import durable

_MOST_COPIES = 3
_LOCK = "lock"


class SnapshotGone(Exception):
    """The checkpoint or savepoint is not there (any more), or not all of it."""


class UnreadableSnapshot(Exception):
    """Its manifest is not one that this version understands."""


@dataclass(frozen=True, slots=True)
class Copy:
    manifest: Manifest
    directory: Path

    def region(self, region: RegionId) -> Path:
        """The Spark checkpoint directory of a region that has committed a batch."""
        return self.directory / region


class Copies:
    """Keeps the copies that were used last, so that one that is asked for again is there."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._kept: OrderedDict[tuple[str, str], Copy] = OrderedDict()

    def of(self, root: str, location: str) -> Copy:
        """A copy to read from. Raises `SnapshotGone` or `UnreadableSnapshot`."""
        wanted = (root, location)
        if wanted not in self._kept:
            target = self._home / uuid4().hex
            if is_local(root):
                self._kept[wanted] = make_copy(local_path(root), location, target)
            else:
                self._kept[wanted] = download(open_storage(root), location, target)
            while len(self._kept) > _MOST_COPIES:
                _, oldest = self._kept.popitem(last=False)
                shutil.rmtree(oldest.directory, ignore_errors=True)
        self._kept.move_to_end(wanted)
        return self._kept[wanted]


def make_copy(root: Path, location: str, target: Path) -> Copy:
    """Copies every region of the snapshot below `target`, which is made."""
    is_savepoint = location == storage_layout.MANIFEST
    lock = nullcontext() if is_savepoint else LocalStorage(root).lock(storage_layout.POOL_LOCK)
    if not root.is_dir():
        raise SnapshotGone(f"{root} is not there")
    with lock:
        manifest = _read(root / location)
        try:
            for region, files in manifest.regions.items():
                for file in files.files:
                    _copy(root / file.location, target / region / file.path, file.bytes)
        except BaseException:
            shutil.rmtree(target, ignore_errors=True)
            raise
    return Copy(manifest, target)


def download(files: Storage, location: str, target: Path) -> Copy:
    """The same of a snapshot elsewhere. No lock reaches there: what retention deletes meanwhile
    is found missing.
    """
    try:
        text = files.read(location).decode()
    except FileNotFoundError:
        raise SnapshotGone(f"{files.uri}/{location} is not there") from None
    manifest = _parse(text, f"{files.uri}/{location}")
    try:
        for region, known in manifest.regions.items():
            for file in known.files:
                files.fetch(file, target / region / file.path)
    except DamagedFile as error:
        shutil.rmtree(target, ignore_errors=True)
        raise SnapshotGone(f"{files.uri}: {error}") from error
    return Copy(manifest, target)


@contextmanager
def scratch(parent: Path) -> Iterator[Path]:
    """A directory for the copies of this process. What dead processes left goes first."""
    with locks.held(parent / _LOCK):
        for leftover in parent.glob("*/"):
            if _is_abandoned(leftover):
                shutil.rmtree(leftover, ignore_errors=True)
        home = parent / uuid4().hex
        home.mkdir()
        descriptor = os.open(home / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)
        os.close(descriptor)


def _is_abandoned(home: Path) -> bool:
    """Whether nobody holds its lock. Asked under the parent's lock, where all are made."""
    try:
        descriptor = os.open(home / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def _read(path: Path) -> Manifest:
    try:
        return _parse(path.read_text(encoding="utf-8"), str(path))
    except FileNotFoundError:
        raise SnapshotGone(f"{path} is not there") from None
    except UnicodeError as error:
        raise UnreadableSnapshot(f"{path}: {error}") from error


def _parse(text: str, name: str) -> Manifest:
    try:
        return manifests.from_json(text)
    except manifests.InvalidManifest as error:
        raise UnreadableSnapshot(f"{name}: {error}") from error


def _copy(source: Path, target: Path, size: int) -> None:
    try:
        durable.link_or_copy(source, target)
    except FileNotFoundError:
        raise SnapshotGone(f"{source} is not there") from None
    if target.stat().st_size != size:
        raise UnreadableSnapshot(
            f"{source} has {target.stat().st_size} bytes, its manifest says {size}"
        )
